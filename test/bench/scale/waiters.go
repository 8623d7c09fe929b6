package main

import (
	"context"
	"time"

	"berth/lock"
)

// measureWaiters has thousands wait for one mutex: what each costs, and what
// happens when the mutex is given back.
func measureWaiters(ctx context.Context, b *bench) error {
	at, err := backend(b.url)
	if err != nil {
		return err
	}
	id := b.mutex(0)
	holder, err := enter(ctx, at, id, &tally{})
	if err != nil {
		return err
	}
	defer holder.leave()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	held, err := holder.attempt(bounded)
	if err != nil {
		return err
	}

	n := b.sizes.Waiters
	c := newCrowd(ctx, n+b.sizes.Counted)
	defer c.disperse(b)
	before, err := b.snap()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.gather(b, 0, n, at, func(int) lock.ID { return id }); err != nil {
		return err
	}
	b.add("waiters", float64(n), "")
	b.add("time until all had queued up", time.Since(began).Seconds(), "s")
	looks, err := b.idle(ctx, c, "waiter", n, before)
	if err != nil {
		return err
	}
	if err := b.countFrames(ctx, c, id); err != nil {
		return err
	}
	return b.handDown(ctx, c, held, looks)
}

// idle measures what n waiters cost while nothing happens, against the snapshot
// before they came. It returns how often one of them looks by itself, per second.
func (b *bench) idle(ctx context.Context, c *crowd, what string, n int, before snapshot) (looks float64, err error) {
	b.say("letting everybody settle for %s", b.sizes.Settle)
	if err := pause(ctx, b.sizes.Settle); err != nil {
		return 0, err
	}
	stopLog, err := b.watchLog(n)
	if err != nil {
		return 0, err
	}
	from, err := b.snap()
	if err != nil {
		return 0, err
	}
	b.addMemory(what, n, before, from)
	returned := c.tally.returned.Load()
	b.say("measuring the idle crowd for %s", b.sizes.Idle)
	if from, err = b.snap(); err == nil { // without what the first one cost
		err = pause(ctx, b.sizes.Idle)
	}
	if err != nil {
		return 0, err
	}
	to, err := b.snap()
	if err != nil {
		return 0, err
	}
	b.addTime(what, n, from, to)
	window := to.when.Sub(from.when)
	looks = float64(c.tally.returned.Load()-returned) / window.Seconds()
	perHour := 3600 / float64(n)
	b.add("looks of its own accord, per waiter", looks*perHour, "/h")
	if err := stopLog(); err != nil {
		return 0, err
	}
	return looks, c.quiet()
}

// watchLog reports what the broker writes into its log, on behalf of n waiters,
// until the returned function is called. A log that is not ours is not looked at.
func (b *bench) watchLog(n int) (stop func() error, err error) {
	if b.ours == nil {
		return func() error { return nil }, nil
	}
	began := time.Now()
	lines, length, err := b.logged()
	return func() error {
		nowLines, nowLength, err := b.logged()
		hours := time.Since(began).Hours()
		b.add("lines in the broker's log per waiter", float64(nowLines-lines)/hours/float64(n), "/h")
		b.add("growth of the broker's log", float64(nowLength-length)/(1<<20)/hours, "MiB/h")
		return err
	}, err
}

// countFrames has more waiters join, through a relay, and counts what they and
// the broker say to each other while nothing happens.
func (b *bench) countFrames(ctx context.Context, c *crowd, id lock.ID) error {
	r, err := newRelay(b.url)
	if err != nil {
		return err
	}
	// The relay stays: these waiters are in the crowd until it disperses.
	b.relays = append(b.relays, r)
	at, err := backend(r.url)
	if err != nil {
		return err
	}
	first, n := b.sizes.Waiters, b.sizes.Counted
	if err := c.gather(b, first, first+n, at, func(int) lock.ID { return id }); err != nil {
		return err
	}
	joining := r.volume()
	b.add("frames for joining, per waiter", float64(joining.up+joining.down)/float64(n), "")
	b.say("letting %d more settle, whose frames are counted", n)
	if err := pause(ctx, b.sizes.Settle); err != nil {
		return err
	}
	before := r.volume()
	b.say("counting their frames for %s", b.sizes.Idle)
	if err := pause(ctx, b.sizes.Idle); err != nil {
		return err
	}
	perHour := time.Hour.Seconds() / b.sizes.Idle.Seconds() / float64(n)
	v := r.volume().since(before)
	b.add("frames to the broker per idle waiter, no heartbeats", float64(v.up)*perHour, "/h")
	b.add("frames from it", float64(v.down)*perHour, "/h")
	b.add("bytes of both", float64(v.bytes)*perHour, "/h")
	return c.quiet()
}
