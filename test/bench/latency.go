package main

import (
	"context"
	"time"
)

const (
	// queueing is how long a waiter has to have been there before what it waits
	// for happens.
	queueing = 600 * time.Millisecond

	// longRun is how long commands run that are to be ended; they do not outlive
	// it if the bench is killed.
	longRun = 3 * time.Minute
)

// measureStart measures from exec of the wrapper to the first instruction of the
// command, the lock being free and not new.
func (b *bench) measureStart(ctx context.Context) ([]*measure, error) {
	m := &measure{ID: "start", Title: "From exec to the command's first instruction, lock free", Unit: "ms", Plot: true}
	err := b.rounds(ctx, b.options.rounds+1, b.arena.contenders, func(round int, c *contender) error {
		attempt, err := b.arena.launch(c, "start", 0)
		if err != nil {
			return err
		}
		defer attempt.close()
		s, err := attempt.awaitEnd(ctx)
		if err == nil && round > 0 { // the first warms up
			m.add(c.name, milliseconds(s.start-attempt.began))
		}
		return err
	})
	return []*measure{m}, err
}

// measureHandover measures from the last act of a holder's command, which ends by
// itself, to the first instruction of the command of a waiter.
func (b *bench) measureHandover(ctx context.Context) ([]*measure, error) {
	m := &measure{ID: "handover", Title: "Handover: the holder's command ends, the waiter's starts", Unit: "ms", Plot: true}
	err := b.rounds(ctx, b.options.rounds, b.arena.contenders, func(_ int, c *contender) error {
		holder, err := b.arena.launch(c, "handover", queueing+200*time.Millisecond)
		if err != nil {
			return err
		}
		defer holder.close()
		if _, err := holder.awaitStart(ctx); err != nil {
			return err
		}
		waiter, err := b.arena.launch(c, "handover", 0)
		if err != nil {
			return err
		}
		defer waiter.close()
		first, err := holder.awaitEnd(ctx)
		if err != nil {
			return err
		}
		next, err := waiter.awaitEnd(ctx)
		if err != nil {
			return err
		}
		if first.end-waiter.began < int64(queueing) {
			return waiter.failed("it was started too late to be queued; the machine is too busy to measure on")
		}
		if next.start < first.end {
			return waiter.failed("its command ran beside the holder's")
		}
		m.add(c.name, milliseconds(next.start-first.end))
		return nil
	})
	return []*measure{m}, err
}

func milliseconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e6 }
