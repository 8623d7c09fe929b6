package contender

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/lock"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/token"
	"berth/lock/rabbit/transport"
)

// lookForLost has tokens made again that were missing at the last look, too, under the administration mutex. Where
// somebody else has that, or anything goes wrong, the next look comes when it is due. It reports whether there is
// nothing but to wait on: the lock has slots, and nobody has left a token that was not handed to anybody.
func (c *Tokens) lookForLost(ctx context.Context) (stay bool, err error) {
	pool := c.pool()
	missing, err := pool.Missing(ctx)
	stay = err == nil && errors.Is(c.none(ctx), lock.ErrFull)
	again := slices.ContainsFunc(missing, func(slot int) bool { return slices.Contains(c.missing, slot) })
	c.missing, c.soon = missing, len(missing) > 0 && !again
	if err == nil && again {
		c.missing = nil
		err = c.repair(ctx, pool)
	}
	if err != nil {
		c.Holder.Log.Debug("not known whether tokens are lost", "error", err)
	}
	if !c.Holder.Session.Usable() {
		return false, c.Holder.Session.Conn().WaitError(ctx, c.id.String())
	}
	return stay, ctx.Err()
}

// pool returns all tokens of the lock.
func (c *Tokens) pool() token.Pool {
	h, s := c.Holder, c.Holder.Session
	return token.Pool{Names: h.Names, Side: s.Side(), Lender: s.Lender, Probe: s.Probe, Log: h.Log}
}

// comeBack reports whether tokens are there that one who does not wait has not found: somebody has counted or tried them,
// and put them back, or they were lost. It makes those again as one that waits does, and at once.
func (c *Tokens) comeBack(ctx context.Context, end time.Time) bool {
	var before []int
	for pool := c.pool(); c.refusal == 0 && time.Now().Before(end); {
		missing, err := pool.Missing(ctx)
		if errors.Is(err, token.ErrReady) {
			return true
		} else if err != nil || len(missing) == 0 {
			return false
		}
		if slices.ContainsFunc(missing, func(slot int) bool { return slices.Contains(before, slot) }) {
			if err = c.repair(ctx, pool); err == nil || !errors.Is(err, transport.ErrTaken) {
				return err == nil
			}
		}
		before = missing
		if transport.Sleep(ctx, onceLook) != nil {
			break
		}
	}
	return false
}

func (c *Tokens) repair(ctx context.Context, pool token.Pool) error {
	return c.administering(ctx, func(ctx context.Context) error {
		n, err := slots.Count(ctx, c.Holder.Session.Side(), c.Holder.Names)
		if err == nil {
			err = pool.Repair(ctx, n, n)
		}
		return err
	})
}

// administering does something under the administration mutex. Its error is transport.ErrTaken if another berth has that,
// and names.Foreign if the queue is no berth's.
func (c *Tokens) administering(ctx context.Context, do func(context.Context) error) error {
	side, mutex := c.Holder.Session.Side(), c.Holder.Names.Administration()
	err := side.Claim(ctx, mutex)
	if errors.Is(err, transport.ErrTaken) && side.Find(ctx, mutex) == nil {
		return c.Holder.Names.Foreign(mutex)
	} else if err != nil {
		return err
	}
	err = do(ctx)
	if given := side.Remove(ctx, mutex); given != nil {
		side.Conn().Abandon() // which gives it back
		err = errors.Join(err, given)
	}
	return err
}
