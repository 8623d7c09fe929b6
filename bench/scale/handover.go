package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
)

const (
	// afterglow is for how long after a handover those are counted who were
	// woken with the one that won.
	afterglow = 20 * time.Millisecond

	// calm lies between handovers, so that each finds everybody waiting.
	calm = 50 * time.Millisecond
)

// handDown has the mutex go from one waiter to the next. looks is how often one
// of the crowd looks by itself, per second.
func (b *bench) handDown(ctx context.Context, c *crowd, held lock.Held, looks float64) error {
	b.say("handing over %d times", b.sizes.Handovers)
	var times []time.Duration
	var watched time.Duration
	var woken, refused int64
	for range b.sizes.Handovers {
		if err := pause(ctx, calm); err != nil {
			return err
		}
		if err := c.quiet(); err != nil {
			return err
		}
		returned, full := c.tally.returned.Load(), c.tally.full.Load()
		began := time.Now()
		released := make(chan error, 1)
		go func() { released <- release(held) }()
		w, err := c.next()
		if err = errors.Join(err, <-released); err != nil {
			return err
		}
		if err := pause(ctx, afterglow); err != nil {
			return err
		}
		watched += time.Since(began)
		woken += c.tally.returned.Load() - returned
		refused += c.tally.full.Load() - full
		times, held = append(times, w.when.Sub(began)), w.held
	}
	b.addTimes(fmt.Sprintf("release to ready at the next, of %d", len(times)), times)
	expected := looks * watched.Seconds()
	per := float64(len(times))
	b.add("returns from Wait per handover", float64(woken)/per, "")
	b.add("  of them looks that were due anyway", expected/per, "")
	b.add("attempts that found the lock held, per handover", float64(refused)/per, "")
	return release(held)
}
