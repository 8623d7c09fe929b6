package scale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"berth/lock"
	"berth/test/bench/measure"
)

// measureWaiters has thousands wait for one mutex: what each costs, and what
// happens when the mutex is given back.
func measureWaiters(ctx context.Context, s *scene) error {
	first := s.newCrowd(ctx, 1, mutex)
	defer first.disperse()
	if err := first.gather(); err != nil {
		return err
	}
	holding, err := first.all()
	if err != nil {
		return err
	}
	before, err := s.snap()
	if err != nil {
		return err
	}
	n := s.sizes.Waiters
	s.count("Waiters for one mutex", n)
	c := s.newCrowd(ctx, n, func(int) lock.ID { return mutex(0) })
	defer c.disperse()
	if err := c.gather(); err != nil {
		return err
	}
	if err := s.addMemory(ctx, fmt.Sprintf("a waiter, one of %d", n), n, before); err != nil {
		return err
	}
	if err := c.idle(ctx); err != nil {
		return err
	}
	return c.handDown(ctx, holding[0].held)
}

// idle measures what waiters cost while nothing happens.
func (c *crowd) idle(ctx context.Context) error {
	returned, n := c.returned.Load(), len(c.members)
	seconds, err := c.addProcessorTime(ctx, "an idle waiter", n)
	if err != nil {
		return err
	}
	c.add("Looks of its own accord of an idle waiter", "per h", float64(c.returned.Load()-returned)*3600/float64(n)/seconds)
	return c.quiet()
}

// addProcessorTime reports what each of n takes while nothing happens, and returns for how long that was measured.
func (s *scene) addProcessorTime(ctx context.Context, what string, n int) (seconds float64, err error) {
	s.say("measuring for %s what takes time while nothing happens", s.sizes.Idle)
	from, err := s.snap()
	if err == nil {
		err = measure.Sleep(ctx, s.sizes.Idle)
	}
	if err != nil {
		return 0, err
	}
	to, err := s.snap()
	if err != nil {
		return 0, err
	}
	seconds = to.when.Sub(from.when).Seconds()
	of := func(from, to measure.Usage) float64 {
		return (to.CPU - from.CPU).Seconds() * 1e6 / float64(n) / seconds
	}
	s.add("Processor time of "+what, "us/s", of(from.here, to.here))
	s.add("... in the broker", "us/s", of(from.broker, to.broker))
	return seconds, nil
}

// verifyAll measures what locks cost that nobody gives back: each holder verifies its slot once a second, as berth does,
// and each waiter proves its place.
func (s *scene) verifyAll(ctx context.Context, holding []win) error {
	verifying, stop := context.WithCancel(ctx)
	var lost atomic.Int64
	var running sync.WaitGroup
	for _, w := range holding {
		running.Go(func() {
			for measure.Sleep(verifying, time.Second) == nil {
				if w.held.Verify(ctx) != nil {
					lost.Add(1)
				}
			}
		})
	}
	_, err := s.addProcessorTime(ctx, "a holder that verifies and its successor", len(holding))
	stop()
	running.Wait()
	if n := lost.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d verifications failed", n))
	}
	return err
}

// handDown has the mutex go from one waiter to the next.
func (c *crowd) handDown(ctx context.Context, held lock.Held) error {
	const calm = 100 * time.Millisecond // between handovers, so that each finds everybody waiting
	c.say("handing over %d times", c.sizes.Handovers)
	var times []time.Duration
	full := c.full.Load()
	for range c.sizes.Handovers {
		if err := errors.Join(measure.Sleep(ctx, calm), c.quiet()); err != nil {
			return err
		}
		began := time.Now()
		released := make(chan error, 1)
		go func() { released <- release(held) }()
		w, err := c.next()
		if err = errors.Join(err, <-released); err != nil {
			return err
		}
		times, held = append(times, w.when.Sub(began)), w.held
	}
	c.addTimes("From Release to Ready at the next waiter", times)
	c.add("Attempts that find the lock held, looks among them, for a handover", "",
		float64(c.full.Load()-full)/float64(len(times)))
	return release(held)
}

// measureLocks has many mutexes with one holder and one waiter each, and then every
// one of them change hands at the same moment.
func measureLocks(ctx context.Context, s *scene) error {
	n := s.sizes.Locks
	before, err := s.snap()
	if err != nil {
		return err
	}
	holders, waiters := s.newCrowd(ctx, n, mutex), s.newCrowd(ctx, n, mutex)
	defer holders.disperse()
	defer waiters.disperse()
	if err := holders.gather(); err != nil {
		return err
	}
	holding, err := holders.all()
	if err != nil {
		return err
	}
	if err := waiters.gather(); err != nil {
		return err
	}
	s.count("Mutexes with one holder and one waiter each", n)
	if err := s.addMemory(ctx, fmt.Sprintf("a holder and a waiter, of %d", n), n, before); err != nil {
		return err
	}
	if err := s.verifyAll(ctx, holding); err != nil {
		return err
	}
	if err := waiters.quiet(); err != nil {
		return err
	}
	s.say("handing all over")
	var unconfirmed atomic.Int64
	var releases sync.WaitGroup
	start := time.Now()
	for _, w := range holding {
		releases.Go(func() {
			if err := release(w.held); err != nil {
				unconfirmed.Add(1) // by a broker that is too busy; closing has freed the lock
				s.say("%s", err)
			}
		})
	}
	wins, err := waiters.all()
	all := time.Since(start)
	releases.Wait()
	if err != nil {
		return err
	}
	var times []time.Duration
	for _, w := range wins {
		times = append(times, w.when.Sub(start))
	}
	s.addTimes("All locks change hands at the same moment: until a lock has", times)
	s.add("... until the last one has", "s", all.Seconds())
	s.count("... releases that the broker does not confirm in time", int(unconfirmed.Load()))
	return nil
}
