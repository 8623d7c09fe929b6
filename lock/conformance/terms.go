package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/lock"
)

var terms = []behaviour{
	{"the term is known once the command may start, and stays", func(e *env) {
		l := e.contender(e.fresh(lock.Mutex))
		held, err := l.Acquire(e.ctx)
		if err != nil {
			e.Fatalf("obtaining a free mutex: %v", err)
		}
		e.ready(held)
		term := held.Term()
		if term == 0 {
			e.Fatal("there is no term though the command may start")
		}
		e.ready(held) // for the next start in the same slot
		e.verify(held)
		if held.Term() != term {
			e.Fatalf("the term was %d and is %d in the same holding", term, held.Term())
		}
		e.release(held)
	}},
	{"terms grow from holder to holder", func(e *env) {
		id := e.fresh(lock.Mutex)
		before := uint64(0)
		for range 4 {
			l, held := e.holder(id)
			before = e.grown(before, held)
			e.release(held)
			held = e.obtain(l) // the same contender again
			before = e.grown(before, held)
			e.release(held)
		}
	}},
	{"terms of a slot grow while many contend", termsGrowInEverySlot},
	{"terms of a slot go on where they were after it was removed and added again", func(e *env) {
		id := e.sized(1)
		_, held := e.holder(id)
		before := e.grown(0, held)
		e.release(held)
		e.resize(id, 0)
		e.resize(id, 1)
		_, held = e.holder(id)
		e.grown(before, held)
	}},
	{"terms grow though a holder has vanished", func(e *env) {
		e.brief()
		id := e.fresh(lock.Mutex)
		l, held := e.holder(id)
		before := e.grown(0, held)
		dead := e.vanish(l, held)
		_, held = e.holder(id)
		e.over(dead)
		e.grown(before, held)
	}},
	// A backend whose lease is longer than the suite's patience fails the next
	// two if a successor waits though nobody is left to wait for.
	{"a command may start as soon as the last holder has released", func(e *env) {
		id := e.sized(2)
		held := e.fill(id, 2)
		next := e.waits(id, lock.ErrFull)
		e.release(held[2])
		e.obtained(next, 2)
		e.verify(held[1])
	}},
	{"a command may start as soon as a slot was released whose command never started", func(e *env) {
		id := e.fresh(lock.Mutex)
		_, first := e.holder(id)
		before := e.grown(0, first)
		e.release(first)
		l := e.contender(id)
		unused, err := l.Acquire(e.ctx)
		if err != nil {
			e.Fatalf("obtaining a free mutex: %v", err)
		}
		over, cancel := context.WithCancel(e.ctx)
		cancel()
		err = unused.Ready(over)
		e.is(err, context.Canceled)
		e.isNot(err, lock.ErrLost, lock.ErrFull)
		e.verify(unused)
		e.release(unused)
		// The contender that gave up stays, and is not in the way.
		_, held := e.holder(id)
		e.grown(before, held)
	}},
	{"waiting for a holder that has vanished can be given up and leaves nothing behind", func(e *env) {
		e.brief()
		id := e.fresh(lock.Mutex)
		l, held := e.holder(id)
		before := e.grown(0, held)
		dead := e.vanish(l, held)
		l = e.contender(id)
		second := e.claimed(l)
		ctx, cancel := context.WithTimeout(e.ctx, briefly)
		defer cancel()
		err := second.Ready(ctx) // nil where a backend has nothing to wait for
		if err != nil {
			e.is(err, context.DeadlineExceeded)
			e.isNot(err, lock.ErrLost, lock.ErrFull)
		} else {
			e.over(dead)
			before = e.grown(before, second)
		}
		e.release(second)
		_, third := e.holder(id)
		e.over(dead)
		e.grown(before, third)
		e.release(third)
		e.grown(third.Term(), e.obtainAgain(l))
	}},
}

// brief makes the test use backends that forget a vanished holder soon.
func (e *env) brief() {
	if e.h.OpenBrief != nil {
		e.h.Open = e.h.OpenBrief
	}
}

// vanish ends a holder without a release, as if nobody knew what has become of
// its command. It returns when that command is certainly dead.
func (e *env) vanish(l lock.Lock, held lock.Held) (dead time.Time) {
	e.Helper()
	dead = time.Now().Add(held.Lease())
	if err := l.Close(); err != nil {
		e.Fatalf("closing the holder: %v", err)
	}
	return dead
}

// over makes sure that a successor, whose command may start, has waited until
// the last holder's is dead.
func (e *env) over(dead time.Time) {
	e.Helper()
	if early := time.Until(dead); early > 0 {
		e.Fatalf("a command may start %v before the lease of a holder that has vanished is over", early)
	}
}

func (e *env) ready(held lock.Held) {
	e.Helper()
	if err := held.Ready(e.ctx); err != nil {
		e.Fatalf("slot %d does not become ready: %v", held.Slot(), err)
	}
}

// grown makes sure that a holding's term is above the one before it in the same
// slot, and returns it.
func (e *env) grown(before uint64, held lock.Held) uint64 {
	e.Helper()
	if held.Term() <= before {
		e.Fatalf("term %d of slot %d comes after term %d", held.Term(), held.Slot(), before)
	}
	return held.Term()
}

// claimed waits until l has a slot, which is not ready yet.
func (e *env) claimed(l lock.Lock) lock.Held {
	e.Helper()
	for {
		held, err := l.Acquire(e.ctx)
		if err == nil {
			return held
		}
		if !errors.Is(err, lock.ErrUnknown) {
			e.is(err, lock.ErrFull)
		}
		if err := l.Wait(e.ctx, e.h.Pause); err != nil {
			e.Fatalf("waiting: %v", err)
		}
	}
}

func termsGrowInEverySlot(e *env) {
	const slots, contenders, rounds = 2, 5, 4
	id := e.sized(slots)
	var (
		mu   sync.Mutex
		last = map[int]uint64{} // by slot
	)
	turn := func(l lock.Lock) error {
		held, err := e.h.obtain(e.ctx, l)
		if err != nil {
			return err
		}
		mu.Lock()
		if held.Term() <= last[held.Slot()] {
			err = fmt.Errorf("term %d of slot %d comes after term %d", held.Term(), held.Slot(), last[held.Slot()])
		}
		last[held.Slot()] = held.Term()
		mu.Unlock()
		return errors.Join(err, held.Release(e.ctx))
	}
	var ends []<-chan error
	for range contenders {
		l := e.contender(id)
		ends = append(ends, later(func() error {
			for range rounds {
				if err := turn(l); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, end := range ends {
		if err := e.ended("a contender", end); err != nil {
			e.Error(err)
		}
	}
}
