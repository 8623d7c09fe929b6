package ledger

import (
	"context"
	"errors"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// Reader reads a ledger. What it has read stays unacknowledged on its channel,
// so that it is there for the next one if this one goes. NewReader makes it.
type Reader struct {
	Known History // what was read so far

	channel  *transport.Channel
	queue    string
	last     transport.Delivery // the newest that was read
	consumer *transport.Consumer
	claimed  bool
	created  bool
	more     bool // there may be records that were not read yet
}

// NewReader returns a reader of the ledger for a holding of this id, or for nobody
// that will be recorded if the id is empty.
func NewReader(channel *transport.Channel, queue, id string) *Reader {
	return &Reader{channel: channel, queue: queue, Known: History{id: id}, more: true}
}

// Claimed reports whether B is claimed: what fails then is the ledger's fault.
func (r *Reader) Claimed() bool { return r.claimed }

// Created reports whether the ledger did not exist before.
func (r *Reader) Created() bool { return r.created }

// Claim declares B as this connection's own and reads the first record, in one
// round trip.
//
// transport.ErrTaken says that B is somebody else's, or a foreign queue. After any
// other error it may be ours.
func (r *Reader) Claim(ctx context.Context, b string) error {
	got, err := r.channel.ClaimAndGet(ctx, b, r.queue)
	switch {
	case err == nil:
		r.claimed = true
		r.got(got)
		return nil
	case errors.Is(err, transport.ErrNoQueue):
		r.claimed = true
		return r.create(ctx)
	case errors.Is(err, transport.ErrTaken), r.channel.Conn().Broken():
		return err
	}
	// Which of the two failed, and why, is found out one by one. To claim what
	// is ours already is allowed.
	if err := r.channel.Claim(ctx, b); err != nil {
		return err
	}
	r.claimed = true
	return r.Begin(ctx)
}

// Begin reads the first record.
func (r *Reader) Begin(ctx context.Context) error {
	err := r.get(ctx)
	if errors.Is(err, transport.ErrNoQueue) {
		return r.create(ctx)
	}
	return unreadable(err)
}

// create creates the ledger.
func (r *Reader) create(ctx context.Context) error {
	r.created, r.more = true, false
	return unreadable(r.channel.Create(ctx, r.queue, names.LedgerLength))
}

// unreadable keeps what is wrong with a ledger from being taken for what is said
// about the slot.
func unreadable(err error) error {
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return lock.Errorf(lock.ErrUnknown, "%s; it was deleted just now", err.Error())
	case errors.Is(err, transport.ErrTaken), errors.Is(err, transport.ErrDiffers):
		return lock.Errorf(lock.ErrUnknown, "%s; it is not a ledger of ours: delete it", err.Error())
	}
	return err
}

// Rest reads what there is still to read.
func (r *Reader) Rest(ctx context.Context) error {
	for r.more {
		if err := r.get(ctx); err != nil {
			return unreadable(err)
		}
	}
	return nil
}

// Again reads what there is by now beside what was read.
func (r *Reader) Again(ctx context.Context) error {
	r.more = true
	return r.Rest(ctx)
}

// get reads one record.
func (r *Reader) get(ctx context.Context) error {
	got, err := r.channel.Get(ctx, r.queue)
	if err == nil {
		r.got(got)
	}
	return err
}

func (r *Reader) got(d *transport.Delivery) {
	r.more = d != nil && d.MessageCount > 0
	if d != nil {
		r.Take(*d)
	}
}

// Take notes a record that was pushed.
func (r *Reader) Take(d transport.Delivery) {
	r.last = d
	if rec, ok := parse(transport.Content(d)); ok {
		r.Known.add(rec)
	}
}

// Follow has the broker push what is written from now on.
func (r *Reader) Follow(ctx context.Context) (err error) {
	r.consumer, err = r.channel.Consume(ctx, r.queue, transport.Consumption{})
	return err
}

// Pushed receives what is written, after Follow, for Take. It is closed when the
// channel is.
func (r *Reader) Pushed() <-chan transport.Delivery { return r.consumer.Deliveries }

// Unfollow ends Follow and reads what there is, so that all of the ledger is
// known: records that come back to it together are pushed one by one.
func (r *Reader) Unfollow(ctx context.Context) error {
	if err := r.consumer.Cancel(ctx); err != nil {
		return err
	}
	for d := range r.Pushed() {
		r.Take(d)
	}
	r.consumer = nil
	return r.Again(ctx)
}

// Count returns how many records are in nobody's hand, and how many follow the
// ledger. What a publisher was confirmed before is counted; what a channel has put
// back may not be yet, because the broker answers this question before it does that.
func (r *Reader) Count(ctx context.Context) (records, followers int, err error) {
	records, followers, err = r.channel.Count(ctx, r.queue)
	return records, followers, unreadable(err)
}

// InHand returns how many records the reader has in hand, if its channel was used
// for nothing else: delivery tags begin at 1.
func (r *Reader) InHand() int { return int(r.last.DeliveryTag) }

// Forget removes what was read, which a newer record has made old. It does not
// wait: if it comes to nothing, the records are read once more.
func (r *Reader) Forget() {
	if r.last.DeliveryTag > 0 {
		_ = r.last.Ack(true)
	}
}

// PutBack returns what was read to the ledger, for the next one that reads, and
// ends Follow: it closes the channel.
func (r *Reader) PutBack(ctx context.Context) error {
	r.more, r.consumer, r.last = true, nil, transport.Delivery{}
	return r.channel.Close(ctx)
}
