package scale

import (
	"context"
	"errors"
	"time"

	"berth/lock"
	"berth/test/bench/measure"
)

// measureWaiters has thousands wait for one mutex: what each costs, and what
// happens when the mutex is given back.
func measureWaiters(ctx context.Context, s *scene) error {
	at, err := locks(s.broker.URL())
	if err != nil {
		return err
	}
	first := &holders{scene: s}
	defer first.leave()
	if err := first.take(ctx, 1, at, s.mutex); err != nil {
		return err
	}
	c := s.newCrowd(ctx, s.sizes.Waiters)
	defer c.disperse()
	before, err := s.snap()
	if err != nil {
		return err
	}
	s.count("Waiters for one mutex", int64(s.sizes.Waiters))
	if err := c.gather(at, func(int) lock.ID { return s.mutex(0) }); err != nil {
		return err
	}
	looks, err := c.idle(ctx, "waiter", before)
	if err != nil {
		return err
	}
	return c.handDown(ctx, first.held[0], looks)
}

const (
	// afterglow is for how long after a handover those are counted that were
	// woken with the one that won.
	afterglow = 20 * time.Millisecond

	// calm lies between handovers, so that each finds everybody waiting.
	calm = 50 * time.Millisecond
)

// handDown has the mutex go from one waiter to the next. looks is how often one
// of the crowd looks by itself, per second.
func (c *crowd) handDown(ctx context.Context, held lock.Held, looks float64) error {
	c.say("handing over %d times", c.sizes.Handovers)
	var times []time.Duration
	var watched time.Duration
	var woken int
	var refused int64
	turns := newOrder(2 * atOnce)
	for range c.sizes.Handovers {
		if err := errors.Join(measure.Sleep(ctx, calm), c.quiet()); err != nil {
			return err
		}
		full, since, began := c.tally.full.Load(), measure.Now(), time.Now()
		released := make(chan error, 1)
		go func() { released <- release(held) }()
		w, err := c.next()
		if err = errors.Join(err, <-released); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, afterglow); err != nil {
			return err
		}
		watched += time.Since(began)
		woken += c.awake(since)
		refused += c.tally.full.Load() - full
		turns.served(w.nr)
		times, held = append(times, w.when.Sub(began)), w.held
	}
	n := float64(len(times))
	c.addTimes("From Release to Ready at the next waiter", times)
	c.add("Waiters that return from Wait for one handover", "", float64(woken)/n)
	c.add("... of them about so many whose own look was due", "", looks*watched.Seconds()/n)
	c.add("Attempts for one handover that find the lock held", "", float64(refused)/n)
	c.add("Handovers to a waiter whose turn it was not", "%", 100*float64(turns.wrong)/n)
	return release(held)
}

// order follows in which order waiters are served that are numbered in the order in
// which they came, more or less.
type order struct {
	slack int          // so many numbers lie between two that came at once
	next  int          // the lowest number that was not served
	gone  map[int]bool // those above next that were
	wrong int          // how many were served out of turn
}

func newOrder(slack int) *order { return &order{slack: slack, gone: map[int]bool{}} }

func (o *order) served(nr int) {
	if nr > o.next+o.slack {
		o.wrong++
	}
	o.gone[nr] = true
	for o.gone[o.next] {
		delete(o.gone, o.next)
		o.next++
	}
}
