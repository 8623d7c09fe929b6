package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"berth/lock"
	"berth/test/bench/measure"
)

// measureTurns has contenders compete for one slot and for four: each obtains one,
// gives it back at once, and comes again.
func measureTurns(ctx context.Context, s *scene) error {
	at, err := locks(s.broker.URL())
	if err != nil {
		return err
	}
	if err := s.compete(ctx, at, s.mutex(0), 1); err != nil {
		return err
	}
	const slots = 4
	if err := s.resize(ctx, at, slots); err != nil {
		return err
	}
	return s.compete(ctx, at, s.semaphore(), slots)
}

func (s *scene) compete(ctx context.Context, at lock.Backend, id lock.ID, slots int) error {
	members := make([]*contender, s.sizes.Contenders)
	defer func() { s.leaveAll(members) }()
	var t tally
	for i := range members {
		var err error
		if members[i], err = enter(ctx, at, id, &t); err != nil {
			return err
		}
	}
	// All begin and end at the same moment.
	over, cancel := context.WithTimeout(ctx, s.sizes.Window)
	defer cancel()
	began, counts := measure.Now(), make([]int, len(members))
	errs := make([]error, len(members))
	var running sync.WaitGroup
	for i, c := range members {
		running.Go(func() { counts[i], errs[i] = c.takeTurns(over) })
	}
	running.Wait()
	seconds := float64(measure.Now()-began) / 1e9
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	s.add(fmt.Sprintf("%d contenders on %d: turns", len(members), slots), "per s", float64(sum)/seconds)
	s.add("... the largest share over the smallest", "ratio",
		float64(slices.Max(counts))/float64(max(1, slices.Min(counts))))
	return nil
}

// takeTurns obtains the lock and gives it back until ctx ends, and returns how often.
func (c *contender) takeTurns(ctx context.Context) (n int, err error) {
	for {
		h, err := c.obtain(ctx, nil)
		if ctx.Err() != nil && h == nil {
			return n, nil
		}
		if err == nil {
			err = release(h)
		}
		if err != nil || ctx.Err() != nil {
			return n, err
		}
		n++
	}
}
