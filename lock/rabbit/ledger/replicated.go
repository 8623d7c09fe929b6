package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// activeTimeout is for how long one that consumes from a replicated ledger, and is shown nothing of it, waits: the broker
// gives all of it to somebody else, or is slow.
const activeTimeout = time.Second

// maxAhead is how many messages can come before one that was put back: the broker has 2000 at most on their way to a
// consumer. With more, it has dropped that one, because somebody fills the ledger: it is to be written again at once.
const maxAhead = 2 * 2000

// copies is what the reader of a replicated ledger has in hand of its record: the record, which is put
// back and delivered again for each proof, and a copy, which stays. If that is delivered again, too, somebody else had
// the place meanwhile.
type copies struct {
	term        uint64 // of both
	kept        uint64 // the tag of the copy in hand; 0: it is not
	interrupted bool   // one of them came that was not put back
	knocked     bool   // what is no record has come back, see Writer.Knock
	alone       bool   // the record that was written last has come, and not the one before

	least time.Duration // the shorter one of the two waits of the last proof
}

// ErrCopies says that there is no proof without both the own record and its copy. They have to be written again.
var ErrCopies = errors.New("the ledger does not have the own record twice")

// EnterReplicated is Enter for a ledger on several nodes. The broker lets everybody consume from it, gives all messages
// to one, and lets the next one have them when that is gone, or its node is. So only a delivery says whose turn it is:
// a look is answered with neither messages nor consumers, too, where the ledger's leader is slow.
//
// A ledger without records is entered too. Errors: transport.ErrTaken, transport.ErrNoQueue, lock.ErrSilent if it shows
// nothing and nobody else is seen to consume from it, lock.ErrDenied, lock.ErrUnknown, lock.ErrUnreachable, that of ctx.
func EnterReplicated(ctx context.Context, channel *transport.Channel, queue string, who Visitor) (*Reader, error) {
	waiting, consumers, err := channel.Count(ctx, queue)
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return nil, err
	case err != nil:
		return nil, unreadable(err)
	case consumers > 0:
		return nil, taken(queue)
	}
	r, err := Return(ctx, channel, queue, who)
	if err != nil {
		return nil, err
	}
	if err := r.readActive(ctx, waiting, who); err != nil {
		err = errors.Join(err, r.Close(ctx))
		if errors.Is(err, lock.ErrSilent) && goesToAnother(ctx, channel, queue) {
			return nil, taken(queue)
		}
		return nil, err
	}
	known := r.View()
	r.Empty = known.Unknown() || known.Truncated() || max(waiting, known.Read) >= names.LedgerFull
	return r, nil
}

// goesToAnother reports whether somebody else consumes from a ledger that this berth has just left. A look counts the
// active consumer alone: before, that might be this one, which a slow ledger takes a moment to see off.
func goesToAnother(ctx context.Context, channel *transport.Channel, queue string) bool {
	if transport.Sleep(ctx, activeTimeout) != nil {
		return false
	}
	_, consumers, err := channel.Count(ctx, queue)
	return err == nil && consumers > 0
}

func taken(queue string) error {
	return fmt.Errorf("queue %q goes to another berth: %w: %w", queue, ErrSuccessor, transport.ErrTaken)
}

// Return takes the reader's place of a replicated ledger, or waits behind its reader: for a holder that had it
// before. Its record, written again, comes once the place is its own. Errors: as EnterReplicated, without
// transport.ErrTaken.
func Return(ctx context.Context, channel *transport.Channel, queue string, who Visitor) (*Reader, error) {
	r := newReader(channel, queue, who)
	r.copies = &copies{}
	consumer, err := channel.Consume(ctx, queue, transport.Consumption{Quorum: true})
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return nil, err
	case err != nil:
		return nil, unreadable(err)
	}
	r.follow(consumer)
	return r, nil
}

// knock is a message that says nothing, of one that was shown nothing.
type knock struct {
	Knock string `json:"knock"` // the id of the holding that is to be recorded
}

// Knock publishes to a replicated ledger what is no record. Errors: as Write.
func (w *Writer) Knock(ctx context.Context, ledger, id string) error {
	m := transport.NewMessage("knock", knock{id})
	m.Expiration = "1000" // ms
	return publish(ctx, w.lender, ledger, m)
}

// readActive reads what is there, for as long as it takes to see that it goes to somebody else. Nobody writes a record
// to a ledger that may be somebody else's: it would be in doubt about its slot. So one that is shown nothing knocks, and
// goes on only if that comes to itself.
func (r *Reader) readActive(ctx context.Context, records int, who Visitor) error {
	if records > 0 {
		err := r.read(ctx, records, activeTimeout)
		if err != nil || r.View().Read > 0 {
			return r.silent(err)
		}
	}
	if who.Knock == nil {
		return nil
	}
	return r.knock(ctx, who.Knock)
}

// knock returns once what is no record has come.
func (r *Reader) knock(ctx context.Context, publish func(context.Context) error) error {
	r.mu.Lock()
	r.copies.knocked = false
	r.mu.Unlock()
	if err := publish(ctx); err != nil {
		return err
	}
	return r.silent(r.await(ctx, activeTimeout, func() bool { return r.copies.knocked }))
}

// Deprived reports whether what is published now comes, though the own record has not and stays away, which comes first
// where the broker has kept it. publish publishes no record (see Visitor.Knock): the place may be somebody else's.
func (r *Reader) Deprived(ctx context.Context, publish func(context.Context) error) bool {
	if r.knock(ctx, publish) != nil {
		return false
	}
	// A policy may delay what is put back by a moment.
	err := r.await(ctx, late, func() bool { return r.own != 0 || r.view.HolderAlive })
	return errors.Is(err, ErrTimedOut)
}

// silent is the outcome of waiting for something that comes at once, or to somebody else: lock.ErrSilent where it has not
// come.
func (r *Reader) silent(err error) error {
	if errors.Is(err, ErrTimedOut) {
		return lock.Errorf(lock.ErrSilent, "queue %q has shown nothing for %s: it is not known who holds the slot", r.queue,
			activeTimeout)
	}
	return err
}

// AwaitCopies waits until the own record and its copy are in hand.
func (r *Reader) AwaitCopies(ctx context.Context, limit time.Duration) error {
	return r.await(ctx, limit, r.complete)
}

// Renew has the own record and its copy written, and waits until these have come, in the place of those in hand: what
// came amid a later proof would look as if somebody else had had the place.
func (r *Reader) Renew(ctx context.Context, limit time.Duration, write func() error) error {
	r.mu.Lock()
	own, kept := r.own, r.copies.kept
	r.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	return r.await(ctx, limit, func() bool { return r.complete() && r.own != own && r.copies.kept != kept })
}

// Vanished reports whether the own record was written again and has come, but not the one before, which comes first
// where the broker has kept it, and does not give it back late.
func (r *Reader) Vanished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copies.alone
}

// late is for how long what is put back does not stay away, and a policy may delay it (delayed-retry-min).
const late = 700 * time.Millisecond

// Delayed reports whether the own record came late in the last proof, both times: after an outage the second is soon.
func (r *Reader) Delayed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copies.least > late
}

// complete reports whether the own record and its copy are in hand. The caller has mu.
func (r *Reader) complete() bool { return r.own != 0 && r.copies.kept != 0 }

// takeCopy notes the own record or its copy, and removes the one that was in hand before. The caller has mu.
func (r *Reader) takeCopy(record Record, m transport.Delivery) {
	if r.copies.term != record.Term {
		r.own, *r.copies = 0, copies{term: record.Term, knocked: r.copies.knocked}
	}
	place := &r.own
	if record.Copy {
		place = &r.copies.kept
	} else if !m.Redelivered {
		r.copies.alone = *place == 0
	}
	if *place != 0 {
		_ = r.consumer.Ack(*place)
		r.drop(*place)
	}
	// One that was just written may have been sent before a question, and is no answer to it.
	r.copies.interrupted = r.copies.interrupted || *place != 0 || !m.Redelivered
	*place = m.DeliveryTag
}

// drop forgets a letter in hand. The caller has mu.
func (r *Reader) drop(tag uint64) {
	r.inHand = slices.DeleteFunc(r.inHand, func(l letter) bool { return l.tag == tag }) // none that does not count
}

// proveTwice puts the own record back and awaits it, and does that again. Where a node was cut off for a while, what
// comes first may have been sent before the question: the place was somebody else's, then ours, and then maybe somebody
// else's again. But the copy was sent with it then, and is read before the second answer. The caller has called begin.
func (r *Reader) proveTwice(ctx context.Context) error {
	began := r.clock.Now()
	r.mu.Lock()
	complete := r.complete()
	r.copies.interrupted = false
	r.mu.Unlock()
	if !complete {
		return lock.Errorf(lock.ErrUnknown, "queue %q: %w", r.queue, ErrCopies)
	}
	least := deliveryTimeout
	for range 2 {
		asked := time.Now()
		r.mu.Lock()
		r.consumer.PutBackOne(r.own)
		r.drop(r.own)
		r.own = 0
		heard, passed := r.view.Read, false
		r.mu.Unlock()
		err := r.await(ctx, deliveryTimeout, func() bool {
			passed = r.own == 0 && r.view.Read-heard > maxAhead
			return r.own != 0 || passed
		})
		if err != nil {
			return err
		} else if passed {
			return lock.Errorf(lock.ErrUnknown, "queue %q: %w: others fill it", r.queue, ErrCopies)
		}
		least = min(least, time.Since(asked))
	}
	r.mu.Lock()
	r.copies.least = least
	interrupted := r.copies.interrupted
	r.mu.Unlock()
	if interrupted {
		return lock.Errorf(lock.ErrUnknown, "queue %q was another berth's for a while", r.queue)
	}
	r.proved(began)
	return nil
}

// Keep leaves the own record alone in the ledger, once the command runs: everybody before is dead. It does not wait.
func (r *Reader) Keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pruned = true
	for _, tag := range r.sift(true) {
		_ = r.consumer.Ack(tag)
	}
}

// Freshen is Keep, and puts back what else the ledger has to keep. What is in hand for long keeps the broker from cutting
// the queue's log, and has it end the consumer in the end (consumer_timeout).
func (r *Reader) Freshen() {
	r.Keep()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range slices.Clone(r.inHand) {
		if l.tag != r.own && l.tag != r.copies.kept {
			r.consumer.PutBackOne(l.tag)
			r.drop(l.tag)
		}
	}
}

// Withdraw is Close for one that has started nothing. It leaves none of the own records that are in hand.
func (r *Reader) Withdraw(ctx context.Context) error {
	r.mu.Lock()
	for _, l := range r.inHand {
		if l.record.Record == held && l.record.ID == r.view.id {
			_ = r.consumer.Ack(l.tag)
		}
	}
	r.mu.Unlock()
	return r.Close(ctx)
}

// First returns what is written to a ledger that is made with its slot: a holding that is over. So the first one to
// come reads something, and need not wait for anybody.
func First(id string) []transport.Message {
	who := Holding{Term: 1, ID: id}
	return []transport.Message{who.Held(0, "", 0).message(), who.Released(false)}
}
