package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"berth/lock"
)

// measureLocks has many mutexes with one holder and one waiter each, and then
// every one of them change hands at once.
func measureLocks(ctx context.Context, b *bench) error {
	at, err := backend(b.url)
	if err != nil {
		return err
	}
	before, err := b.snap()
	if err != nil {
		return err
	}
	h := &holders{}
	defer h.leave(b)
	if err := h.take(ctx, b, b.sizes.Locks, at, b.mutex); err != nil {
		return err
	}
	c := newCrowd(ctx, b.sizes.Locks)
	defer c.disperse(b)
	if err := c.gather(b, 0, b.sizes.Locks, at, b.mutex); err != nil {
		return err
	}
	b.add("locks", float64(b.sizes.Locks), "")
	stop := h.keep(ctx)
	_, err = b.idle(ctx, c, "lock", b.sizes.Locks, before)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	return b.handAllOver(c, h)
}

// handAllOver has every holder give its lock back at the same moment.
func (b *bench) handAllOver(c *crowd, h *holders) error {
	b.say("handing all over")
	began := make([]time.Time, len(h.held))
	var unconfirmed atomic.Int64
	var releases sync.WaitGroup
	start := time.Now()
	for i, held := range h.held {
		releases.Go(func() {
			began[i] = time.Now()
			if err := release(held); err != nil {
				unconfirmed.Add(1) // by a broker that is too busy; closing has freed the lock
				b.say("%s", err)
			}
		})
	}
	var wins []win
	var err error
	for len(wins) < len(h.held) && err == nil {
		var w win
		w, err = c.next()
		wins = append(wins, w)
	}
	all := time.Since(start)
	releases.Wait()
	if err != nil {
		return err
	}
	var times []time.Duration
	for _, w := range wins {
		times = append(times, w.when.Sub(began[w.nr]))
	}
	b.addTimes("release to ready, all at once", times)
	b.add("time until every lock had changed hands", all.Seconds(), "s")
	b.add("releases that the broker did not confirm in time", float64(unconfirmed.Load()), "")
	b.add("connections given up, or broken", float64(c.tally.cut.Load()), "")
	return nil
}

// holders are contenders that hold a slot each.
type holders struct {
	members []*contender
	held    []lock.Held
	tally   tally
}

// take has n contenders obtain a slot each, some at a time.
func (h *holders) take(ctx context.Context, b *bench, n int, at lock.Backend, id func(nr int) lock.ID) error {
	h.members, h.held = make([]*contender, n), make([]lock.Held, n)
	var done atomic.Int64
	defer b.progress("%d of %d hold a slot", &done, n)()
	return inParallel(n, b.sizes.Parallel, func(i int) (err error) {
		if h.members[i], err = enter(ctx, at, id(i), &h.tally); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		h.held[i], err = h.members[i].obtain(bounded, nil)
		done.Add(1)
		return err
	})
}

// keep verifies every slot once a second until the returned function is called,
// which says whether one was in doubt.
func (h *holders) keep(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, len(h.held))
	for i, held := range h.held {
		running.Go(func() { errs[i] = keep(ctx, held) })
	}
	return func() error {
		cancel()
		running.Wait()
		return errors.Join(errs...)
	}
}

// leave closes all, with what they hold.
func (h *holders) leave(b *bench) { leaveAll(h.members, b.sizes.Parallel) }
