package contender

import (
	"context"
	"errors"
	"time"

	"berth/lock"
	"berth/lock/rabbit/holding"
)

// poll is the Caller of a lock with the plain protocol: nobody tells of a slot that is free.
type poll struct {
	*Candidate
	looked bool // for a ledger, because no slot was free
}

func (c *poll) acquire(ctx context.Context) (h *holding.Held, err error) {
	err = c.Holder.Finder.Search(ctx, func(ctx context.Context, slot int, _ bool) (err error) {
		h, err = c.Holder.Claim(ctx, slot, false)
		return err
	})
	if errors.Is(err, lock.ErrFull) && !c.looked {
		err = c.seekLedger(ctx, err)
	}
	if errors.Is(err, lock.ErrFull) {
		err = c.permitted(ctx, c.Holder.Names.Holds(1), err)
	}
	return h, err
}

// seekLedger says so if those who hold the lock keep a ledger. Otherwise it returns full.
func (c *poll) seekLedger(ctx context.Context, full error) error {
	err := c.Holder.WithoutLedger(ctx, 1)
	if err == nil || errors.Is(err, lock.ErrUnknown) {
		c.looked = err == nil
		return full
	}
	return err
}

func (c *poll) wait(ctx context.Context, pause time.Duration) error {
	if c.Holder.Finder.Limit == 1 {
		c.seekForeign(ctx)
	}
	conn := c.Holder.Session.Conn()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-conn.Done():
	case <-conn.Blocked():
	case <-ctx.Done():
	}
	return conn.WaitError(ctx, c.id.String())
}

func (c *poll) leave() {}
