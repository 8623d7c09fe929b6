package holding

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// againPause lies between attempts to consume again after the consumer's
// channel was closed. The slot is verified on another channel meanwhile, so
// there is no hurry, only the earlier news of a deletion to regain.
const againPause = 500 * time.Millisecond

// request is a message to whoever owns B.
type request struct {
	Request string `json:"request"`
	Term    uint64 `json:"term"`
}

const requestReclaim = "reclaim"

// watch consumes from B: the broker ends the consumer when B is deleted, and requests
// arrive there.
type watch struct {
	held     *Held
	channel  *transport.Channel // for consuming again; owned by run
	requests chan uint64        // terms whose holders ask for the slot
	stopped  chan struct{}      // closed when B is about to be given back
	done     chan struct{}      // closed when run has ended
}

// stop makes what happens to B from now on no loss.
func (w *watch) stop() { close(w.stopped) }

// over reports whether nothing that happens to B is a loss any more.
func (w *watch) over() bool { return transport.IsClosed(w.held.ended) || transport.IsClosed(w.stopped) }

// consume consumes from B. Without waiting for the answer, a refusal is the end of
// the deliveries.
func consume(ctx context.Context, channel *transport.Channel, b string, noWait bool) (*transport.Consumer, error) {
	return channel.Consume(ctx, b, transport.Consumption{Exclusive: true, NoAck: true, NoWait: noWait})
}

// run reports the loss of the slot as soon as the broker says so. It ends
// with the first loss, the connection, or Release.
func (w *watch) run(c *transport.Consumer) {
	defer close(w.done)
	for {
		if deleted, over := w.drain(c); over {
			return
		} else if deleted {
			_ = w.held.lose("its queue was deleted")
			return
		}
		if w.channel.Conn().Broken() {
			_ = w.held.dropped()
			return
		}
		// Only the channel was closed. B may still be ours.
		if c = w.again(); c == nil {
			return
		}
	}
}

// drain reads what comes until nothing can come any more. Probes arrive here,
// empty, and are ignored; requests are taken from our own user only, as the
// broker has checked it.
func (w *watch) drain(c *transport.Consumer) (deleted, over bool) {
	for {
		select {
		case <-w.held.ended:
			return false, true
		case <-w.stopped:
			return false, true
		case d, open := <-c.Deliveries:
			if open {
				w.heed(d)
				continue
			}
			return c.Dropped(), w.over()
		}
	}
}

// heed passes a request on to whom it concerns. One that nobody waits for is
// dropped: it comes again.
func (w *watch) heed(d transport.Delivery) {
	var r request
	text := transport.Content(d)
	if len(text) == 0 || d.UserId == "" || d.UserId != w.channel.Conn().User() {
		return
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Request != requestReclaim {
		return
	}
	select {
	case w.requests <- r.Term:
	default:
	}
}

// again returns nil when there is nothing left to watch.
func (w *watch) again() *transport.Consumer {
	h := w.held
	for {
		c, err := consume(context.Background(), w.channel, h.b, false)
		switch {
		case err == nil:
			h.Log.Debug("consuming again", "queue", h.b)
			return c
		case errors.Is(err, transport.ErrNoQueue), errors.Is(err, transport.ErrTaken):
			_ = h.lose(err.Error())
			return nil
		case errors.Is(err, lock.ErrUnreachable):
			_ = h.dropped()
			return nil
		}
		again := time.After(againPause)
		if errors.Is(err, lock.ErrDenied) {
			h.Log.Warn("a deletion of the slot's queue is noticed late, and a slot that was lost cannot be asked "+
				"back", "error", err)
			again = nil
		} else {
			h.Log.Debug("cannot consume again", "queue", h.b, "error", err)
		}
		select {
		case <-h.ended:
			return nil
		case <-w.stopped:
			return nil
		case <-w.channel.Conn().Done():
		case <-again:
		}
	}
}
