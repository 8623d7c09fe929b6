package main

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
// that.
func measureSlots(ctx context.Context, b *bench) (err error) {
	r, err := newRelay(b.url)
	if err != nil {
		return err
	}
	b.relays = append(b.relays, r)
	direct, err := backend(b.url)
	if err != nil {
		return err
	}
	relayed, err := backend(r.url)
	if err != nil {
		return err
	}
	id, n := b.semaphore(), b.sizes.Slots
	b.say("making %d slots", n)
	began := time.Now()
	if err := resize(ctx, relayed, id, n); err != nil {
		return err
	}
	b.add("slots", float64(n), "")
	b.add("making them", milliseconds(time.Since(began)), "ms")
	b.add("  frames to the broker", float64(r.volume().up), "")
	defer func() { err = errors.Join(err, resize(context.WithoutCancel(ctx), direct, id, 0)) }()

	h := &holders{}
	defer h.leave(b)
	began = time.Now()
	if err := h.take(ctx, b, n-1, direct, func(int) lock.ID { return id }); err != nil {
		return err
	}
	b.add(fmt.Sprintf("time until %d contenders held a slot", n-1), time.Since(began).Seconds(), "s")
	b.add("  attempts in vain for each", float64(h.tally.full.Load()+h.tally.unclear.Load())/float64(max(n-1, 1)), "")
	if err := b.search(ctx, r, relayed, id); err != nil {
		return err
	}
	r.delay.Store(0)
	return b.lookInVain(ctx, r, direct, relayed, id)
}

// lookInVain measures what a waiter does that looks by itself, when every slot is
// held.
func (b *bench) lookInVain(ctx context.Context, r *relay, direct, relayed lock.Backend, id lock.ID) error {
	last := &holders{}
	defer last.leave(b)
	if err := last.take(ctx, b, 1, direct, func(int) lock.ID { return id }); err != nil {
		return err
	}
	c, err := enter(ctx, relayed, id, &tally{})
	if err != nil {
		return err
	}
	defer c.leave()
	var times []time.Duration
	var before volume
	for i := range b.sizes.Searches + 1 {
		if i == 1 { // the first look opened a connection
			times, before = nil, r.volume()
		}
		began := time.Now()
		if _, err := c.lock.Acquire(ctx); !errors.Is(err, lock.ErrFull) {
			return fmt.Errorf("looking at %d slots that are all held: not found to be full: %w", b.sizes.Slots, err)
		}
		times = append(times, time.Since(began))
	}
	v, per := r.volume().since(before), float64(b.sizes.Searches)
	b.addTimes("look when all are held", times)
	b.add("  frames to the broker", float64(v.up)/per, "")
	b.add("  frames from it", float64(v.down)/per, "")
	return nil
}

// resize gives the semaphore so many slots, as the command line does when
// nothing else is said.
func resize(ctx context.Context, at lock.Backend, id lock.ID, slots int) error {
	const sweep = 16
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	defer cancel()
	a := at.Administrator(id)
	_, _, err := a.Resize(ctx, sweep, func(int) (int, error) { return slots, nil })
	return errors.Join(err, a.Close())
}

// laps are what one contender went through, and how long each part took.
type laps struct{ connect, acquire, ready, verify, release []time.Duration }

// all gives the parts in order, with their names.
func (l *laps) all() []struct {
	name  string
	times []time.Duration
} {
	return []struct {
		name  string
		times []time.Duration
	}{
		{"connecting", l.connect}, {"search and claim", l.acquire}, {"ready", l.ready},
		{"verifying", l.verify}, {"release", l.release},
	}
}

// search obtains the free slot again and again. How many round trips that takes
// shows by delaying each: what comes on top of the plain time is delays.
func (b *bench) search(ctx context.Context, r *relay, at lock.Backend, id lock.ID) error {
	b.say("looking for the free slot %d times", b.sizes.Searches)
	before := r.volume()
	plain, err := b.laps(ctx, at, id)
	if err != nil {
		return err
	}
	v, per := r.volume().since(before), float64(b.sizes.Searches)
	b.say("the same with delays")
	r.delay.Store(int64(b.sizes.Delay))
	delayed, err := b.laps(ctx, at, id)
	if err != nil {
		return err
	}
	trip := 2 * b.sizes.Delay
	slow := delayed.all()
	for i, part := range plain.all() {
		b.addTimes(part.name, part.times)
		// The shortest of each: what else the machine does only adds to them.
		delays := slices.Min(slow[i].times) - slices.Min(part.times)
		b.add(part.name+", round trips", math.Round(float64(delays)/float64(trip)), "")
	}
	b.add("frames to the broker, from connecting to release", float64(v.up)/per, "")
	b.add("frames from it", float64(v.down)/per, "")
	return nil
}

// laps has new contenders obtain the free slot and give it back, one after the
// other, each as a berth that has just been started.
func (b *bench) laps(ctx context.Context, at lock.Backend, id lock.ID) (*laps, error) {
	l := &laps{}
	for range b.sizes.Searches {
		if err := l.one(ctx, at, id, b.sizes.Slots); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *laps) one(ctx context.Context, at lock.Backend, id lock.ID, slots int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	since := time.Now()
	lap := func(times *[]time.Duration) {
		*times = append(*times, time.Since(since))
		since = time.Now()
	}
	c, err := enter(ctx, at, id, &tally{})
	if err != nil {
		return err
	}
	defer c.leave()
	lap(&l.connect)
	h, err := c.lock.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("looking for the free one of %d slots: %w", slots, err)
	}
	lap(&l.acquire)
	if err = h.Ready(ctx); err == nil {
		lap(&l.ready)
		err = h.Verify(ctx)
		lap(&l.verify)
	}
	err = errors.Join(err, h.Release(ctx))
	lap(&l.release)
	return err
}
