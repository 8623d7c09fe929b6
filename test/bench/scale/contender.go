package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"berth/lock"
	"berth/test/bench/measure"
)

// tally counts what contenders went through.
type tally struct {
	returned atomic.Int64 // times that Wait returned
	full     atomic.Int64 // attempts for which every slot was held
}

// contender wants a slot.
type contender struct {
	lock  lock.Lock
	tally *tally
	woke  atomic.Int64 // when Wait returned last, see measure.Now
}

// enter connects a new contender. The caller has it leave.
func enter(ctx context.Context, from lock.Backend, id lock.ID, t *tally) (*contender, error) {
	c := &contender{lock: from.Lock(id), tally: t}
	if err := c.connect(ctx); err != nil {
		c.leave()
		return nil, err
	}
	return c, nil
}

// connect connects, and tries again while the broker is too busy.
func (c *contender) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := c.lock.Connect(ctx)
		if err == nil || !errors.Is(err, lock.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		if measure.Sleep(ctx, rand.N(firstPoll)) != nil {
			return err
		}
	}
}

// leave gives up everything that the contender has; nil has nothing. Its error says
// that the broker was too busy to confirm that within a second, and the connection
// was cut instead: nothing that a measurement fails over.
func (c *contender) leave() {
	if c != nil {
		_ = c.lock.Close()
	}
}

// The pauses of a berth between attempts where nothing tells when to make the next
// one: they double from the first to the longest, on average.
const (
	firstPoll   = 50 * time.Millisecond
	longestPoll = 500 * time.Millisecond
)

// obtain waits for a slot, for as long as ctx allows, and returns when a command
// could start in it. It calls queued, if there is one, before it waits for the
// first time. A connection that is lost is made anew, as berth does.
func (c *contender) obtain(ctx context.Context, queued func()) (lock.Held, error) {
	for poll := firstPoll; ; poll = min(2*poll, longestPoll) {
		h, err := c.attempt(ctx)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, lock.ErrUnreachable):
		case errors.Is(err, lock.ErrFull):
			c.tally.full.Add(1)
			fallthrough
		case errors.Is(err, lock.ErrUnknown):
			if queued != nil {
				queued()
				queued = nil
			}
			if err = c.lock.Wait(ctx, rand.N(2*poll)); err == nil {
				c.tally.returned.Add(1)
				c.woke.Store(measure.Now())
				continue
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !errors.Is(err, lock.ErrUnreachable) {
			return nil, err
		}
		if err := c.connect(ctx); err != nil {
			return nil, err
		}
	}
}

// attempt makes one attempt, and leaves nothing behind if it fails.
func (c *contender) attempt(ctx context.Context) (lock.Held, error) {
	h, err := c.lock.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.Ready(ctx); err != nil {
		return nil, errors.Join(err, release(h))
	}
	return h, nil
}

// release gives a slot back, also when the run is being given up.
func release(h lock.Held) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return h.Release(ctx)
}

// keep verifies a slot every second, as berth does while the command runs, until
// ctx ends. A slot that is not certain to be held is an error: nothing is broken
// here.
func keep(ctx context.Context, h lock.Held) error {
	const interval, timeout = time.Second, 5 * time.Second
	for {
		if measure.Sleep(ctx, interval) != nil {
			return nil
		}
		// Of its own, so that the end of ctx does not look like a failure.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		err := h.Verify(bounded)
		cancel()
		if err != nil {
			return fmt.Errorf("a slot that nobody touched: %w", err)
		}
	}
}
