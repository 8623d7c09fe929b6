package claim

import (
	"context"
	"errors"
	"time"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// againPause lies between attempts to consume again after the consumer's channel was closed. The slot is verified
// meanwhile, so there is only the earlier news of a deletion to regain.
const againPause = 500 * time.Millisecond

// request is a message to the owner of B.
type request struct {
	Request string `json:"request"`
	Term    uint64 `json:"term"`
}

const requestReclaim = "reclaim"

// ReclaimRequest asks the owner of B to give it back to the holder of a term.
func ReclaimRequest(term uint64) transport.Message {
	return transport.NewMessage(requestReclaim, request{Request: requestReclaim, Term: term})
}

// Asked returns the term of a holder that asks for the slot, if the message says so and comes from a user of the lock,
// as the broker has checked it.
func (c *Claim) Asked(d transport.Delivery) (term uint64, ok bool) {
	var r request
	ok = c.Conn().Trusts(d.UserId) && transport.Read(d, &r) == nil && r.Request == requestReclaim
	return r.Term, ok
}

// watch consumes from B: the broker ends the consumer when B is deleted, and requests arrive there.
type watch struct {
	*Claim
	channel  *transport.Channel
	requests chan uint64     // see Requests
	life     context.Context // over when B is about to be given back: what happens to it is no loss then
	stop     context.CancelFunc
	done     chan struct{} // closed when run has ended
}

// consume consumes from B. Without waiting for the answer, a refusal is the end of the deliveries.
func consume(ctx context.Context, channel *transport.Channel, b string, noWait bool) (*transport.Consumer, error) {
	return channel.Consume(ctx, b, transport.Consumption{Exclusive: true, NoAck: true, NoWait: noWait})
}

// run reports the loss of the slot as soon as the broker says so. It ends with that, with the connection, or when all
// is over.
func (w *watch) run(c *transport.Consumer) {
	defer close(w.done)
	if w.handle == nil {
		w.awaitEnd()
		return
	}
	for c != nil && w.drain(c) {
		// The channel was closed, or the broker has ended the consumer: B was deleted, or its process has crashed, and it
		// is there again (RabbitMQ 4.3), and still ours.
		c = w.again()
	}
}

// awaitEnd reports the end of the connection.
func (w *watch) awaitEnd() {
	select {
	case <-w.life.Done():
	case <-w.channel.Conn().Done():
		if w.life.Err() == nil {
			_ = w.Dropped()
		}
	}
}

// drain reads what comes until nothing can come any more, and reports whether that matters.
func (w *watch) drain(c *transport.Consumer) bool {
	for {
		select {
		case <-w.life.Done():
			return false
		case d, open := <-c.Deliveries:
			if !open {
				return w.life.Err() == nil
			}
			w.read(d)
		}
	}
}

// read passes a request on to whom it concerns. Probes, which are empty, are ignored, and what does not say from whom
// it is. That the slot is to be given back is for the users of the lock to say, as the broker has checked it; that is
// dropped where nobody waits for it: it comes again.
func (w *watch) read(d transport.Delivery) {
	if d.UserId == "" {
		return
	}
	term, asked := w.Asked(d)
	if !asked || w.Started() {
		w.handle(d)
		return
	}
	select {
	case w.requests <- term:
	default:
	}
}

// again consumes again. It returns nil when there is nothing left to watch.
func (w *watch) again() *transport.Consumer {
	for {
		c, err := consume(context.Background(), w.channel, w.queue, false)
		again := time.After(againPause)
		switch {
		case err == nil:
			w.log.Debug("consuming again", "queue", w.queue)
			return c
		case errors.Is(err, transport.ErrNoQueue):
			_ = w.Lose("its queue was deleted")
			return nil
		case errors.Is(err, transport.ErrTaken):
			_ = w.Lose(err.Error())
			return nil
		case errors.Is(err, lock.ErrUnreachable):
			_ = w.Dropped()
			return nil
		case errors.Is(err, lock.ErrDenied):
			w.log.Warn("cannot watch the slot's queue: its deletion is noticed late, and a holder that lost it cannot ask "+
				"for it", "error", err)
			again = nil
		default:
			w.log.Debug("cannot consume again", "queue", w.queue, "error", err)
		}
		select {
		case <-w.life.Done():
			return nil
		case <-w.channel.Conn().Done():
		case <-again:
		}
	}
}
