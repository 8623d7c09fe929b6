package compare

import (
	"context"
	"errors"
	"strconv"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// start measures from exec of the wrapper to the first instruction of the command,
// the lock being free: one that was used before, and a new one each time.
func (a *Arena) start(ctx context.Context) ([]*report.Measure, error) {
	used := &report.Measure{Title: titleFree, Unit: "ms", Plot: true}
	unused := &report.Measure{Title: titleUnused, Unit: "ms", Plot: true}
	err := a.rounds(ctx, a.sizes.Rounds+1, a.programs, func(round int, p *program) error {
		again, err := a.startOne(ctx, p, "start")
		if err != nil {
			return err
		}
		first, err := a.startOne(ctx, p, "start-"+strconv.Itoa(round))
		if err == nil && round > 0 { // the first warms up
			used.Add(p.name, measure.Milliseconds(again))
			unused.Add(p.name, measure.Milliseconds(first))
		}
		return err
	})
	return []*report.Measure{used, unused}, err
}

// startOne returns how long a run's command took to start, in nanoseconds.
func (a *Arena) startOne(ctx context.Context, p *program, lock string) (int64, error) {
	t, err := a.launch(p, p.wrap, lock, 0)
	if err != nil {
		return 0, err
	}
	defer t.close()
	s, err := t.awaitEnd(ctx)
	return s.Start - t.began, err
}

// handover measures from the last act of a holder's command, which ends by itself,
// to the first instruction of the command of a waiter.
func (a *Arena) handover(ctx context.Context) ([]*report.Measure, error) {
	m := &report.Measure{Title: titleHandover, Unit: "ms", Plot: true}
	err := a.rounds(ctx, a.sizes.Rounds, a.programs, func(_ int, p *program) error {
		h, err := a.handOver(ctx, p, p.wrap)
		if err == nil {
			m.Add(p.name, measure.Milliseconds(h.started-h.ended))
		}
		return err
	})
	return []*report.Measure{m}, err
}

// handedOver is one handover.
type handedOver struct {
	ended, started       int64  // the last act of one command, the first of the next, see measure.Now
	holderLog, waiterLog string // files
}

// handOver has a lock go from a holder to a waiter.
func (a *Arena) handOver(ctx context.Context, p *program, wrap wrapper) (h handedOver, err error) {
	holder, err := a.launch(p, wrap, "handover", queueing+200*time.Millisecond)
	if err != nil {
		return h, err
	}
	defer holder.close()
	if _, err := holder.awaitStart(ctx); err != nil {
		return h, err
	}
	waiter, err := a.launch(p, wrap, "handover", 0)
	if err != nil {
		return h, err
	}
	defer waiter.close()
	first, err := holder.awaitEnd(ctx)
	if err != nil {
		return h, err
	}
	next, err := waiter.awaitEnd(ctx)
	switch {
	case err != nil:
	case first.End-waiter.began < int64(queueing):
		err = waiter.failed("it was started too late to be queued; the machine is too busy to measure on")
	case next.Start < first.End:
		err = waiter.failed("its command ran beside the holder's")
	}
	return handedOver{first.End, next.Start, holder.log, waiter.log}, err
}

// settled is how long contenders are left alone before they are looked at.
const settled = 3 * time.Second

// memory measures one holder and one waiter at a time: more of them would share
// pages that are private otherwise.
func (a *Arena) memory(ctx context.Context) ([]*report.Measure, error) {
	waiters := &report.Measure{Title: titleWaiter, Unit: "KiB", Plot: true}
	holders := &report.Measure{Title: titleHolder, Unit: "KiB", Plot: true}
	err := a.rounds(ctx, a.sizes.Memory, a.programs, func(_ int, p *program) error {
		holder, err := a.launch(p, p.wrap, "memory", longRun)
		if err != nil {
			return err
		}
		defer holder.close()
		if _, err := holder.awaitStart(ctx); err != nil {
			return err
		}
		waiter, err := a.launch(p, p.wrap, "memory", 0)
		if err != nil {
			return err
		}
		defer waiter.close()
		if err := measure.Sleep(ctx, settled); err != nil {
			return err
		}
		return errors.Join(waiter.addMemory(waiters), holder.addMemory(holders))
	})
	return []*report.Measure{waiters, holders}, err
}
