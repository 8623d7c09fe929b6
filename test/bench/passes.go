package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// loops is how many run a wrapper over and over.
const loops = 12

// measurePasses measures how many commands that end at once get their turn.
func (b *bench) measurePasses(ctx context.Context) ([]*measure, error) {
	one := &measure{ID: "passes", Title: fmt.Sprintf("%d contenders, one slot: commands run", loops), Unit: "per s", More: true, Plot: true}
	oneShare := &measure{ID: "passes-share", Title: fmt.Sprintf("%d contenders, one slot: the largest share over the smallest", loops), Unit: "ratio"}
	four := &measure{ID: "passes-four", Title: fmt.Sprintf("%d contenders, four slots: commands run", loops), Unit: "per s", More: true, Plot: true}
	fourShare := &measure{ID: "passes-four-share", Title: fmt.Sprintf("%d contenders, four slots: the largest share over the smallest", loops), Unit: "ratio"}
	for _, c := range b.arena.contenders {
		if c.four == nil {
			four.of(c.name).Text, fourShare.of(c.name).Text = "one slot only", "one slot only"
			continue
		}
		if err := c.makeFour(ctx, "passes-four"); err != nil {
			return nil, err
		}
	}
	err := b.rounds(ctx, b.options.windows, b.arena.contenders, func(_ int, c *contender) error {
		if err := b.passes(ctx, c, c.wrap, "passes", one, oneShare); err != nil {
			return err
		}
		if c.four == nil {
			return nil
		}
		return b.passes(ctx, c, c.four, "passes-four", four, fourShare)
	})
	return []*measure{one, oneShare, four, fourShare}, err
}

// passes runs all loops for one window.
func (b *bench) passes(ctx context.Context, c *contender, wrap wrapper, lock string, passed, share *measure) error {
	const warmUp = time.Second
	var stop atomic.Bool
	var group sync.WaitGroup
	var files []string
	errs := make([]error, loops)
	for i := range loops {
		file := b.arena.file()
		files = append(files, file)
		group.Go(func() {
			for !stop.Load() && errs[i] == nil {
				errs[i] = b.pass(ctx, c, wrap, lock, file)
			}
		})
	}
	err := sleep(ctx, warmUp)
	began := now()
	if err == nil {
		err = sleep(ctx, b.options.window)
	}
	ended := now()
	stop.Store(true) // who waits gets the lock from who runs, and ends as well
	group.Wait()
	for _, one := range errs {
		if err == nil {
			err = one
		}
	}
	if err != nil {
		return err
	}
	counts := make([]int, loops)
	sum := 0
	for i, file := range files {
		all, err := readStamps(file)
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.start >= began && s.start < ended {
				counts[i]++
			}
		}
		sum += counts[i]
	}
	passed.add(c.name, float64(sum)*1e9/float64(ended-began))
	least, most := slices.Min(counts), slices.Max(counts)
	if least == 0 {
		share.of(c.name).Text = fmt.Sprintf("%d to none", most)
		return nil
	}
	share.add(c.name, math.Round(100*float64(most)/float64(least))/100)
	return nil
}

// pass runs a wrapper once.
func (b *bench) pass(ctx context.Context, c *contender, wrap wrapper, lock, file string) error {
	t, err := b.arena.launchWith(c, wrap, lock, file, 0)
	if err != nil {
		return err
	}
	defer t.close()
	_, err = t.awaitEnd(ctx)
	return err
}
