package scale

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
func measureLocks(ctx context.Context, s *scene) error {
	at, err := locks(s.broker.URL())
	if err != nil {
		return err
	}
	before, err := s.snap()
	if err != nil {
		return err
	}
	s.count("Mutexes with one holder and one waiter each", int64(s.sizes.Locks))
	h := &holders{scene: s}
	defer h.leave()
	if err := h.take(ctx, s.sizes.Locks, at, s.mutex); err != nil {
		return err
	}
	c := s.newCrowd(ctx, s.sizes.Locks)
	defer c.disperse()
	if err := c.gather(at, s.mutex); err != nil {
		return err
	}
	stop := h.keep(ctx)
	_, err = c.idle(ctx, "lock with a holder and a waiter", before)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	return h.handAllOver(c)
}

// handAllOver has every holder give its lock back at the same moment.
func (h *holders) handAllOver(c *crowd) error {
	h.say("handing all over")
	began := make([]time.Time, len(h.held))
	var unconfirmed atomic.Int64
	var releases sync.WaitGroup
	start := time.Now()
	for i, held := range h.held {
		releases.Go(func() {
			began[i] = time.Now()
			if err := release(held); err != nil {
				unconfirmed.Add(1) // by a broker that is too busy; closing has freed the lock
				h.say("%s", err)
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
	h.addTimes("All locks change hands at once: from Release to Ready", times)
	h.add("... until the last one has", "s", all.Seconds())
	h.count("... releases that the broker does not confirm in time", unconfirmed.Load())
	return nil
}

// holders are contenders that hold a slot each.
type holders struct {
	*scene
	members []*contender // nil where one has not come
	held    []lock.Held
	tally   tally
}

// take has n contenders obtain a slot each, some at a time.
func (h *holders) take(ctx context.Context, n int, at lock.Backend, id func(nr int) lock.ID) error {
	h.members, h.held = make([]*contender, n), make([]lock.Held, n)
	return h.inParallel(n, "hold a slot", func(i int) (err error) {
		if h.members[i], err = enter(ctx, at, id(i), &h.tally); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		h.held[i], err = h.members[i].obtain(bounded, nil)
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
func (h *holders) leave() { h.leaveAll(h.members) }
