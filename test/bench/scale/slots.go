package scale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"berth/lock"
)

// measureSlots makes a semaphore of many slots, holds all but one, and looks for
// that one. Then it looks at all of them when they are held.
func measureSlots(ctx context.Context, s *scene) error {
	direct, err := locks(s.broker.URL())
	if err != nil {
		return err
	}
	relayed, err := locks(s.broker.Relay.URL())
	if err != nil {
		return err
	}
	n := s.sizes.Slots
	s.say("making %d slots", n)
	if err := s.resize(ctx, direct, n); err != nil {
		return err
	}
	s.count("Slots of a semaphore, all but one of them held", int64(n))
	id := func(int) lock.ID { return s.semaphore() }
	h := &holders{scene: s}
	defer h.leave()
	if err := h.take(ctx, n-1, direct, id); err != nil {
		return err
	}
	if err := s.searchTwice(ctx, relayed); err != nil {
		return err
	}
	last := &holders{scene: s}
	defer last.leave()
	if err := last.take(ctx, 1, direct, id); err != nil {
		return err
	}
	return s.lookInVain(ctx, direct)
}

// searchTwice obtains the free slot again and again, and once more with everything
// delayed: what comes on top of the plain time is round trips.
func (s *scene) searchTwice(ctx context.Context, at lock.Backend) error {
	const delay = 10 * time.Millisecond // in each direction
	s.say("looking for the free slot %d times", s.sizes.Searches)
	plain, err := s.search(ctx, at)
	if err != nil {
		return err
	}
	s.say("the same with delays")
	s.broker.Relay.Delay(delay)
	delayed, err := s.search(ctx, at)
	if err != nil {
		return err
	}
	s.addTimes("A new contender searches for the free slot and claims it", plain)
	// The shortest of each: what else the machine does only adds to them.
	trips := float64(slices.Min(delayed)-slices.Min(plain)) / float64(2*delay)
	s.count("... round trips, with those in which connections and channels are opened", int64(math.Round(trips)))
	return nil
}

// search has new contenders obtain the free slot and give it back, one after the
// other, each as a berth that has just been started.
func (s *scene) search(ctx context.Context, at lock.Backend) (times []time.Duration, err error) {
	for range s.sizes.Searches {
		took, err := s.searchOnce(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("looking for the free one of %d slots: %w", s.sizes.Slots, err)
		}
		times = append(times, took)
	}
	return times, nil
}

func (s *scene) searchOnce(ctx context.Context, at lock.Backend) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := enter(ctx, at, s.semaphore(), &tally{})
	if err != nil {
		return 0, err
	}
	defer c.leave()
	began := time.Now()
	h, err := c.lock.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	took = time.Since(began)
	return took, errors.Join(h.Ready(ctx), h.Release(ctx))
}

// lookInVain measures what a waiter does that looks by itself, when every slot is
// held.
func (s *scene) lookInVain(ctx context.Context, at lock.Backend) error {
	c, err := enter(ctx, at, s.semaphore(), &tally{})
	if err != nil {
		return err
	}
	defer c.leave()
	var times []time.Duration
	for range s.sizes.Searches + 1 {
		began := time.Now()
		if _, err := c.lock.Acquire(ctx); !errors.Is(err, lock.ErrFull) {
			return fmt.Errorf("looking at %d slots that are all held: not found to be full: %w", s.sizes.Slots, err)
		}
		times = append(times, time.Since(began))
	}
	s.addTimes("A waiter looks when all are held", times[1:]) // the first look opened a connection
	return nil
}
