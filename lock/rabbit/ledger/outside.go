package ledger

import (
	"context"
	"errors"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// StepOut stops consuming, with all records in hand, for one that waits for a holder which nobody has heard of:
// the holder of the slot sees a ledger with neither record nor consumer then, and writes its record again. It counts
// although the queues that are the claims may be different ones on the sides of a split cluster: the ledger is one.
func (r *Reader) StepOut(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	if err := r.consumer.Cancel(ctx); err != nil {
		return err
	}
	<-r.View().Ended
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = true
	return nil
}

// StepIn consumes again, and reads what has come meanwhile. Errors: transport.ErrTaken for as long as somebody else
// stands there, and as Enter.
func (r *Reader) StepIn(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	records, err := r.consume(ctx, Visitor{Owner: true})
	switch {
	case errors.Is(err, transport.ErrTaken) && !errors.Is(err, ErrSuccessor): // the channel is closed, and everything back
		return lock.Errorf(lock.ErrLost, "%s", err.Error())
	case errors.Is(err, transport.ErrNoQueue):
		return unreadable(err)
	case err != nil:
		return err
	}
	return r.read(ctx, records, 0)
}

// Waiting returns how many messages there are to be read after StepOut, and whether somebody else reads them.
func (r *Reader) Waiting(ctx context.Context) (records int, taken bool, err error) {
	records, consumers, err := r.channel.Count(ctx, r.queue)
	return records, consumers > 0, unreadable(err)
}

// ClearHolderAlive is for a sign of life that was acted upon.
func (r *Reader) ClearHolderAlive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.HolderAlive = false
}
