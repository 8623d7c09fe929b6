package ledger

import (
	"context"
	"errors"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// StepOut stops consuming, with all records in hand, for one that waits for a holder
// which nobody has heard of: whoever holds the slot sees a ledger with neither record nor
// consumer then, and writes its record again. It counts although the queues that are
// the claims may be different ones on the sides of a split cluster: the ledger is one.
func (d *Door) StepOut(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	if err := d.consumer.Cancel(ctx); err != nil {
		return err
	}
	<-d.Ended()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fresh = true
	return nil
}

// StepIn consumes again, and reads what has come meanwhile. Errors: as Enter.
func (d *Door) StepIn(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	records, consumers, err := d.channel.Count(ctx, d.queue)
	if err != nil {
		return unreadable(err)
	}
	if consumers > 0 {
		return d.taken()
	}
	consumer, err := d.channel.Consume(ctx, d.queue, transport.Consumption{Exclusive: true})
	if errors.Is(err, transport.ErrTaken) { // which has closed the channel, and put everything back
		return lock.Errorf(lock.ErrLost, "%s", err.Error())
	} else if err != nil {
		return err
	}
	ended := make(chan struct{})
	d.mu.Lock()
	d.consumer, d.ended = consumer, ended
	records += d.seen
	d.mu.Unlock()
	go d.run(consumer, ended)
	return d.read(ctx, records)
}

// Waiting returns how many messages there are to be read after StepOut, and whether
// somebody else reads them.
func (d *Door) Waiting(ctx context.Context) (records int, taken bool, err error) {
	records, consumers, err := d.channel.Count(ctx, d.queue)
	return records, consumers > 0, unreadable(err)
}

// Echoed reports whether somebody else has written that it holds the slot since StepOut:
// it lives.
func (d *Door) Echoed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.echoed
}

// Heeded is for an echo that was acted upon.
func (d *Door) Heeded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.echoed = false
}
