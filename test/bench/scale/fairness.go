package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth/lock"
)

// measureFairness has contenders compete for one slot and for four: each obtains
// one, gives it back at once, and comes again.
func measureFairness(ctx context.Context, b *bench) error {
	at, err := backend(b.url)
	if err != nil {
		return err
	}
	if err := b.compete(ctx, at, b.mutex(0), 1); err != nil {
		return err
	}
	const slots = 4
	id := b.semaphore()
	if err := resize(ctx, at, id, slots); err != nil {
		return err
	}
	err = b.compete(ctx, at, id, slots)
	return errors.Join(err, resize(context.WithoutCancel(ctx), at, id, 0))
}

// share is what one contender got.
type share struct {
	turns   int
	barged  int           // turns of them that it did not wait for, ahead of those who did
	longest time.Duration // between giving back and obtaining again
	err     error
}

func (b *bench) compete(ctx context.Context, at lock.Backend, id lock.ID, slots int) error {
	n := b.sizes.Contenders
	b.say("%d contenders compete for %s for %s", n, id, b.sizes.Contest)
	var members []*contender
	defer func() { leaveAll(members, b.sizes.Parallel) }()
	var t tally
	for range n {
		c, err := enter(ctx, at, id, &t)
		if err != nil {
			return err
		}
		members = append(members, c)
	}
	// All begin and end at the same moment.
	over, cancel := context.WithTimeout(ctx, b.sizes.Contest)
	defer cancel()
	began := time.Now()
	shares := make([]share, n)
	var running sync.WaitGroup
	for i, c := range members {
		running.Go(func() { shares[i] = c.repeat(over, b.sizes.Hold, b.sizes.Rest) })
	}
	batons, err := b.batons(over, id, b.sizes.Contest/2)
	running.Wait()
	took := time.Since(began)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	prefix := fmt.Sprintf("%d on %d: ", n, slots)
	if b.ours != nil {
		b.add(prefix+"batons in circulation", float64(batons), "")
	}
	return b.addShares(prefix, shares, &t, took)
}

// batons returns how many messages wake the waiters of the lock, after a while:
// one for each holder is enough. Of a broker that is not ours it knows nothing.
func (b *bench) batons(ctx context.Context, id lock.ID, after time.Duration) (n int, err error) {
	if b.ours == nil || pause(ctx, after) != nil {
		return 0, nil
	}
	all, err := b.ours.Queues(context.WithoutCancel(ctx), "/")
	for _, q := range all {
		if q.Name == id.Name+"-W" { // docs/protocol.md
			n = q.Messages
		}
	}
	return n, err
}

// repeat obtains the lock and gives it back until ctx ends.
func (c *contender) repeat(ctx context.Context, hold, rest time.Duration) (s share) {
	for {
		began := time.Now()
		waited := false
		h, err := c.obtain(ctx, func() { waited = true })
		s.longest = max(s.longest, time.Since(began))
		if ctx.Err() != nil {
			if h != nil {
				s.err = release(h)
			}
			return s
		}
		if err == nil {
			s.turns++
			if !waited {
				s.barged++
			}
			_ = pause(ctx, hold) // at the end it is given back, too
			err = release(h)
		}
		if err != nil {
			s.err = err
			return s
		}
		_ = pause(ctx, rest)
	}
}

func (b *bench) addShares(prefix string, shares []share, t *tally, took time.Duration) error {
	var turns []int
	var longest time.Duration
	var errs []error
	sum, barged := 0, 0
	for _, s := range shares {
		turns = append(turns, s.turns)
		sum += s.turns
		barged += s.barged
		longest = max(longest, s.longest)
		errs = append(errs, s.err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.Sort(turns)
	least, most := turns[0], turns[len(turns)-1]
	b.add(prefix+"turns per second", float64(sum)/took.Seconds(), "/s")
	b.add(prefix+"smallest share", 100*float64(least)/float64(max(sum, 1)), "%")
	b.add(prefix+"largest share", 100*float64(most)/float64(max(sum, 1)), "%")
	b.add(prefix+"largest to smallest", float64(most)/float64(max(least, 1)), "")
	b.add(prefix+"turns without waiting, ahead of others", 100*float64(barged)/float64(max(sum, 1)), "%")
	b.add(prefix+"longest wait", milliseconds(longest), "ms")
	b.add(prefix+"attempts in vain per turn", float64(t.full.Load()+t.unclear.Load())/float64(max(sum, 1)), "")
	return nil
}
