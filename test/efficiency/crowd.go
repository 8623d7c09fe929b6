package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/test/bench/measure"
)

// crowd has every slot of its locks held, by one contender each, and one more contender
// who comes in vain.
type crowd struct {
	members []contender
	late    contender
	slots   int  // of each lock
	hasty   bool // nothing is measured: steps need no pause after them
}

// create makes the locks of a crowd of n: one of n slots, or n of one slot each.
func create(ctx context.Context, s scheme, url string, n, slots int) error {
	for i := 0; i < n; i += slots {
		if err := s.create(ctx, url, lockName(s, i, slots), slots); err != nil {
			return fmt.Errorf("cannot make a lock of %s: %w", s.name, err)
		}
	}
	return nil
}

// lockName is what the lock of the contender i is called.
func lockName(s scheme, i, slots int) string {
	return fmt.Sprintf("%s %d %d", s.name, slots, i/slots)
}

// gather connects a crowd. The caller disperses it, also after an error.
func gather(ctx context.Context, s scheme, url string, size sizes, slots int) (*crowd, error) {
	c := &crowd{slots: slots, hasty: size.hasty}
	for i := range size.crowd {
		m, err := s.connect(ctx, url, lockName(s, i, slots), slots, false)
		if err != nil {
			return c, err
		}
		c.members = append(c.members, m)
	}
	late, err := s.connect(ctx, url, lockName(s, 0, slots), slots, true)
	if err == nil {
		c.late = late
	}
	return c, err
}

// disperse closes all connections, if it has not before. What was released is free then.
func (c *crowd) disperse() {
	for _, m := range c.members {
		m.close()
	}
	if c.late != nil {
		c.late.close()
	}
	c.members, c.late = nil, nil
}

// The pauses after each step: what is not waited for in it belongs to it, too. A berth
// claims its slot 100 ms after its command has started.
const (
	settle      = 150 * time.Millisecond
	settleStart = 400 * time.Millisecond
	young       = 120 * time.Millisecond
)

const acquire = "acquire"

// steps of a round, in order.
var steps = []struct {
	name  string
	pause time.Duration
	times int // what one contender does in a round
	do    func(ctx context.Context, c *crowd, m contender) error
}{
	{acquire, settleStart, 1, func(ctx context.Context, _ *crowd, m contender) error { return m.acquire(ctx) }},
	{"failed --try", settle, 3, func(ctx context.Context, c *crowd, _ contender) error {
		if err := c.late.acquire(ctx); !errors.Is(err, errFull) {
			return fmt.Errorf("one more contender got %w and not that every slot is held", orNothing(err))
		}
		return nil
	}},
	{"verify", settle, 5, func(ctx context.Context, _ *crowd, m contender) error { return m.verify(ctx) }},
	{"release", settle, 1, func(ctx context.Context, _ *crowd, m contender) error { return m.release(ctx) }},
}

func orNothing(err error) error {
	if err == nil {
		return errors.New("a slot")
	}
	return err
}

// round has the crowd do each step, one contender after the other. begun and ended are
// called around a step, by its index; ended also gets how long each time took.
func (c *crowd) round(ctx context.Context, begun func(step int) error, ended func(step int, took []time.Duration) error,
) error {
	for i, s := range steps {
		if err := begun(i); err != nil {
			return err
		}
		var took []time.Duration
		for j, m := range c.members {
			if s.name == acquire && c.slots > 1 && j > 0 {
				// One that has just started has not claimed its slot yet: another has to look again.
				if err := measure.Sleep(ctx, young); err != nil {
					return err
				}
			}
			for range s.times {
				began := time.Now()
				if err := s.do(ctx, c, m); err != nil {
					return fmt.Errorf("cannot %s: %w", s.name, err)
				}
				took = append(took, time.Since(began))
			}
		}
		if err := errors.Join(c.calm(ctx, s.pause), ended(i, took)); err != nil {
			return err
		}
	}
	return nil
}

// calm waits until what was not waited for is done.
func (c *crowd) calm(ctx context.Context, d time.Duration) error {
	if c.hasty {
		return ctx.Err()
	}
	return measure.Sleep(ctx, d)
}

// verifyEvery is berth's --verify-interval.
const verifyEvery = time.Second

// hold has the crowd win its slots and keep them for a while, verifying each once a
// second. begun and ended are called around that while.
func (c *crowd) hold(ctx context.Context, d time.Duration, begun, ended func() error) error {
	for _, m := range c.members {
		if err := errors.Join(m.acquire(ctx), measure.Sleep(ctx, young)); err != nil {
			return err
		}
	}
	if err := errors.Join(c.calm(ctx, 2*settleStart), begun()); err != nil {
		return err
	}
	tick := time.NewTicker(verifyEvery / time.Duration(len(c.members)))
	defer tick.Stop()
	for i := 0; i < int(d*time.Duration(len(c.members))/verifyEvery); i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := c.members[i%len(c.members)].verify(ctx); err != nil {
			return fmt.Errorf("cannot verify: %w", err)
		}
	}
	err := ended()
	for _, m := range c.members {
		err = errors.Join(err, m.release(ctx)) // or the next one would have to wait
	}
	return err
}
