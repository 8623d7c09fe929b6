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

// activeTimeout is for how long one that has come to the door of a replicated ledger, and is shown nothing of it,
// waits: the broker gives all of it to somebody else.
const activeTimeout = time.Second

// mostAhead is how many messages can come before one that was put back: the broker has 2000 at most on their way to a
// consumer. With more, it has dropped that one, because somebody fills the ledger: it is to be written again at once.
const mostAhead = 2 * 2000

// copies is what one has in hand of its record who stands at the door of a replicated ledger: the record, which is put
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
// A ledger without records is entered too. Errors: transport.ErrTaken, transport.ErrNoQueue, lock.ErrDenied,
// lock.ErrUnknown, lock.ErrUnreachable, that of ctx.
func EnterReplicated(ctx context.Context, channel *transport.Channel, queue string, who Visitor) (*Door, error) {
	waiting, consumers, err := channel.Count(ctx, queue)
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return nil, err
	case err != nil:
		return nil, unreadable(err)
	case consumers > 0:
		return nil, taken(queue)
	}
	d, err := Return(ctx, channel, queue, who)
	if err != nil {
		return nil, err
	}
	if err := d.readActive(ctx, waiting, who); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	known := d.View()
	d.Empty = known.Silent() || known.Lost() || max(waiting, known.Read) >= names.LedgerFull
	return d, nil
}

func taken(queue string) error {
	return fmt.Errorf("queue %q goes to another berth: %w: %w", queue, ErrNext, transport.ErrTaken)
}

// Return takes the place at the door of a replicated ledger, or stands behind whoever has it: for a holder that had it
// before. Its record, written again, comes once the place is its own. Errors: as EnterReplicated, without
// transport.ErrTaken.
func Return(ctx context.Context, channel *transport.Channel, queue string, who Visitor) (*Door, error) {
	d := newDoor(channel, queue, who)
	d.copies = &copies{}
	consumer, err := channel.Consume(ctx, queue, transport.Consumption{Quorum: true})
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return nil, err
	case err != nil:
		return nil, unreadable(err)
	}
	d.follow(consumer)
	return d, nil
}

// knock is a message that says nothing, of one that was shown nothing.
type knock struct {
	Knock string `json:"knock"` // the id of the holding that is to be recorded
}

// Knock publishes to a replicated ledger what is no record. Errors: as Write.
func (w *Writer) Knock(ctx context.Context, ledger, id string) error {
	m := transport.NewMessage("knock", knock{id})
	m.Expiration = "1000" // ms
	return deliver(ctx, w.via, ledger, m)
}

// readActive reads what is there, for as long as it takes to see that it goes to somebody else. Nobody writes a record
// to a ledger that may be somebody else's: it would be in doubt about its slot. So one that is shown nothing knocks, and
// goes on only if that comes to itself.
func (d *Door) readActive(ctx context.Context, records int, who Visitor) error {
	if records > 0 {
		err := d.shown(ctx, func(ctx context.Context) error { return d.read(ctx, records) })
		if err != nil || d.View().Read > 0 {
			return err
		}
	}
	if who.Knock == nil {
		return nil
	}
	return d.knock(ctx, who.Knock)
}

// knock returns once what is no record has come.
func (d *Door) knock(ctx context.Context, publish func(context.Context) error) error {
	d.mu.Lock()
	d.copies.knocked = false
	d.mu.Unlock()
	if err := publish(ctx); err != nil {
		return err
	}
	return d.shown(ctx, func(ctx context.Context) error {
		return d.await(ctx, deliveryTimeout, func() bool { return d.copies.knocked })
	})
}

// Deprived reports whether what is published now comes, though the own record has not and stays away, which comes first
// where the broker has kept it. publish publishes no record (see Visitor.Knock): the place may be somebody else's.
func (d *Door) Deprived(ctx context.Context, publish func(context.Context) error) bool {
	if d.knock(ctx, publish) != nil {
		return false
	}
	// A policy may delay what is put back by a moment.
	err := d.await(ctx, late, func() bool { return d.own != 0 || d.view.Echoed })
	return errors.Is(err, ErrLate)
}

// shown awaits something that comes at once, or to somebody else.
func (d *Door) shown(ctx context.Context, await func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, activeTimeout)
	defer cancel()
	err := await(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil && !d.channel.Conn().Broken() {
		return taken(d.queue)
	}
	return err
}

// AwaitCopies waits until the own record and its copy are in hand.
func (d *Door) AwaitCopies(ctx context.Context, limit time.Duration) error {
	return d.await(ctx, limit, d.complete)
}

// Renew has the own record and its copy written, and waits until these have come, in the place of those in hand: what
// came amid a later proof would look as if somebody else had had the place.
func (d *Door) Renew(ctx context.Context, limit time.Duration, write func() error) error {
	d.mu.Lock()
	own, kept := d.own, d.copies.kept
	d.mu.Unlock()
	if err := write(); err != nil {
		return err
	}
	return d.await(ctx, limit, func() bool { return d.complete() && d.own != own && d.copies.kept != kept })
}

// Vanished reports whether the own record was written again and has come, but not the one before, which comes first
// where the broker has kept it, and does not give it back late.
func (d *Door) Vanished() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copies.alone
}

// late is for how long what is put back does not stay away, and a policy may delay it (delayed-retry-min).
const late = 700 * time.Millisecond

// Delayed reports whether the own record came late in the last proof, both times: after an outage the second is soon.
func (d *Door) Delayed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copies.least > late
}

// complete reports whether the own record and its copy are in hand. The caller has mu.
func (d *Door) complete() bool { return d.own != 0 && d.copies.kept != 0 }

// takeCopy notes the own record or its copy, and removes the one that was in hand before. The caller has mu.
func (d *Door) takeCopy(r Record, m transport.Delivery) {
	if d.copies.term != r.Term {
		d.own, *d.copies = 0, copies{term: r.Term, knocked: d.copies.knocked}
	}
	place := &d.own
	if r.Copy {
		place = &d.copies.kept
	} else if !m.Redelivered {
		d.copies.alone = *place == 0
	}
	if *place != 0 {
		_ = d.consumer.Ack(*place)
		d.drop(*place)
	}
	// One that was just written may have been sent before a question, and is no answer to it.
	d.copies.interrupted = d.copies.interrupted || *place != 0 || !m.Redelivered
	*place = m.DeliveryTag
}

// drop forgets a letter in hand. The caller has mu.
func (d *Door) drop(tag uint64) {
	d.inHand = slices.DeleteFunc(d.inHand, func(l letter) bool { return l.tag == tag }) // none that does not count
}

// proveTwice puts the own record back and awaits it, and does that again. Where a node was cut off for a while, what
// comes first may have been sent before the question: the place was somebody else's, then ours, and then maybe somebody
// else's again. But the copy was sent with it then, and is read before the second answer. The caller has called begin.
func (d *Door) proveTwice(ctx context.Context) error {
	began := d.clock.Now()
	d.mu.Lock()
	complete := d.complete()
	d.copies.interrupted = false
	d.mu.Unlock()
	if !complete {
		return lock.Errorf(lock.ErrUnknown, "queue %q: %w", d.queue, ErrCopies)
	}
	least := deliveryTimeout
	for range 2 {
		asked := time.Now()
		d.mu.Lock()
		d.consumer.PutBackOne(d.own)
		d.drop(d.own)
		d.own = 0
		heard, passed := d.view.Read, false
		d.mu.Unlock()
		err := d.await(ctx, deliveryTimeout, func() bool {
			passed = d.own == 0 && d.view.Read-heard > mostAhead
			return d.own != 0 || passed
		})
		if err != nil {
			return err
		} else if passed {
			return lock.Errorf(lock.ErrUnknown, "queue %q: %w: others fill it", d.queue, ErrCopies)
		}
		least = min(least, time.Since(asked))
	}
	d.mu.Lock()
	d.copies.least = least
	interrupted := d.copies.interrupted
	d.mu.Unlock()
	if interrupted {
		return lock.Errorf(lock.ErrUnknown, "queue %q was another berth's for a while", d.queue)
	}
	d.proved(began)
	return nil
}

// Keep leaves the own record alone in the ledger, once the command runs: everybody before is dead. It does not wait.
func (d *Door) Keep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pruned = true
	for _, tag := range d.sift(true) {
		_ = d.consumer.Ack(tag)
	}
}

// Freshen is Keep, and puts back what else the ledger has to keep. What is in hand for long keeps the broker from cutting
// the queue's log, and has it end the consumer in the end (consumer_timeout).
func (d *Door) Freshen() {
	d.Keep()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range slices.Clone(d.inHand) {
		if l.tag != d.own && l.tag != d.copies.kept {
			d.consumer.PutBackOne(l.tag)
			d.drop(l.tag)
		}
	}
}

// Withdraw is Close for one that has started nothing. It leaves none of the own records that are in hand.
func (d *Door) Withdraw(ctx context.Context) error {
	d.mu.Lock()
	for _, l := range d.inHand {
		if l.record.Record == held && l.record.ID == d.view.id {
			_ = d.consumer.Ack(l.tag)
		}
	}
	d.mu.Unlock()
	return d.Close(ctx)
}

// First returns what is written to a ledger that is made with its slot: a holding that is over. So the first one to
// come reads something, and need not wait for anybody.
func First(id string) []transport.Message {
	who := Holding{Term: 1, ID: id}
	return []transport.Message{who.Held(0, "", 0).message(), who.Released(false)}
}
