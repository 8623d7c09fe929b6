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
	longest time.Duration // between giving back and obtaining again
	err     error
}

func (b *bench) compete(ctx context.Context, at lock.Backend, id lock.ID, slots int) (err error) {
	n := b.sizes.Contenders
	b.say("%d contenders compete for %s for %s", n, id, b.sizes.Contest)
	var members []*contender
	defer func() {
		for _, c := range members {
			err = errors.Join(err, c.leave())
		}
	}()
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
		running.Go(func() { shares[i] = c.repeat(over) })
	}
	running.Wait()
	took := time.Since(began)
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.addShares(fmt.Sprintf("%d on %d: ", n, slots), shares, &t, took)
}

// repeat obtains the lock and gives it back until ctx ends.
func (c *contender) repeat(ctx context.Context) (s share) {
	for {
		began := time.Now()
		h, err := c.obtain(ctx, nil)
		s.longest = max(s.longest, time.Since(began))
		if ctx.Err() != nil {
			if h != nil {
				s.err = release(h)
			}
			return s
		}
		if err == nil {
			s.turns++
			err = release(h)
		}
		if err != nil {
			s.err = err
			return s
		}
	}
}

func (b *bench) addShares(prefix string, shares []share, t *tally, took time.Duration) error {
	var turns []int
	var longest time.Duration
	var errs []error
	sum := 0
	for _, s := range shares {
		turns = append(turns, s.turns)
		sum += s.turns
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
	b.add(prefix+"longest wait", milliseconds(longest), "ms")
	b.add(prefix+"attempts in vain per turn", float64(t.full.Load()+t.unclear.Load())/float64(max(sum, 1)), "")
	return nil
}
