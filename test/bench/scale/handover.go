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
	var woken int
	var refused int64
	line := newLine(2 * b.sizes.Parallel)
	for range b.sizes.Handovers {
		if err := pause(ctx, calm); err != nil {
			return err
		}
		if err := c.quiet(); err != nil {
			return err
		}
		full := c.tally.full.Load()
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
		woken += c.awake(began)
		refused += c.tally.full.Load() - full
		line.served(w.nr)
		times, held = append(times, w.when.Sub(began)), w.held
	}
	b.addTimes(fmt.Sprintf("release to ready at the next, of %d", len(times)), times)
	expected := looks * watched.Seconds()
	per := float64(len(times))
	b.add("waiters that returned from Wait, per handover", float64(woken)/per, "")
	b.add("  of them about so many whose look was due", expected/per, "")
	b.add("attempts that found the lock held, per handover", float64(refused)/per, "")
	b.add("connections given up, or broken", float64(c.tally.cut.Load()), "")
	b.add("handovers to one whose turn it was not", 100*float64(line.outOfTurn)/per, "%")
	return release(held)
}

// line follows in which order waiters are served who are numbered in the order in
// which they came, more or less.
type line struct {
	slack     int          // so many numbers lie between two that came at once
	next      int          // the lowest number that was not served
	gone      map[int]bool // those above next that were
	outOfTurn int
}

func newLine(slack int) *line { return &line{slack: slack, gone: map[int]bool{}} }

func (l *line) served(nr int) {
	if nr > l.next+l.slack {
		l.outOfTurn++
	}
	l.gone[nr] = true
	for l.gone[l.next] {
		delete(l.gone, l.next)
		l.next++
	}
}
