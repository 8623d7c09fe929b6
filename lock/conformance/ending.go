package conformance

import (
	"context"
	"time"

	"berth/lock"
)

// briefly is how long a context lives that has to end while something waits.
// Nothing depends on its length.
const briefly = 100 * time.Millisecond

var ending = []behaviour{
	{"waiting for a slot ends with its context", func(e *env) {
		id := e.fresh(lock.Mutex)
		_, held := e.holder(id)
		l := e.contender(id)
		e.refused(l, lock.ErrFull)
		ctx, cancel := context.WithTimeout(e.ctx, briefly)
		defer cancel()
		done := later(func() error {
			return until(func() error { return l.Wait(ctx, e.h.Pause) })
		})
		e.is(e.ended("Wait", done), context.DeadlineExceeded)
		e.release(held)
		e.obtainAgain(l)
	}},
	{"waiting for a lock that is not there ends with its context", func(e *env) {
		l := e.contender(e.fresh(e.h.Kind))
		e.refused(l, lock.ErrAbsent)
		ctx, cancel := context.WithCancel(e.ctx)
		done := later(func() error {
			return until(func() error { return l.Wait(ctx, e.h.PauseAbsent) })
		})
		cancel()
		e.is(e.ended("Wait", done), context.Canceled)
	}},
	{"what begins after the end of its context fails and leaves nothing behind", func(e *env) {
		id := e.sized(1)
		over, cancel := context.WithCancel(e.ctx)
		cancel()
		unconnected := e.h.Open(e.T).Lock(id)
		e.is(unconnected.Connect(over), context.Canceled)
		if err := unconnected.Close(); err != nil {
			e.Errorf("closing a contender that never was connected: %v", err)
		}
		l := e.contender(id)
		_, err := l.Acquire(over)
		e.is(err, context.Canceled)
		e.isNot(err, lock.ErrFull, lock.ErrAbsent)
		_, held := e.holder(id)
		e.verify(held)
	}},
	{"a verification whose context has ended proves nothing", func(e *env) {
		id := e.fresh(lock.Mutex)
		_, held := e.holder(id)
		over, cancel := context.WithCancel(e.ctx)
		cancel()
		for _, prove := range []func(context.Context) error{held.Verify, held.Reclaim} {
			err := prove(over)
			e.is(err, context.Canceled)
			e.isNot(err, lock.ErrLost)
		}
		e.verify(held)
		e.refused(e.contender(id), lock.ErrFull)
	}},
	{"a release whose context has ended frees the slot all the same", func(e *env) {
		e.brief() // there may have been no time to record it
		id := e.fresh(lock.Mutex)
		_, held := e.holder(id)
		next := e.waits(id, lock.ErrFull)
		over, cancel := context.WithCancel(e.ctx)
		cancel()
		_ = held.Release(over)
		e.obtained(next, 1)
	}},
	{"waiting for vacancy ends with its context and changes nothing", func(e *env) {
		id := e.sized(2)
		held := e.fill(id, 2)
		e.still(e.administrator(id), 1, 2)
		e.verify(held[1])
		e.verify(held[2])
		e.slots(id, 2)
	}},
	{"administration whose context has ended changes nothing", func(e *env) {
		id := e.sized(2)
		over, cancel := context.WithCancel(e.ctx)
		cancel()
		a := e.administrator(id)
		_, _, err := a.Resize(over, 0, to(5))
		e.is(err, context.Canceled)
		_, err = a.Slots(over)
		e.is(err, context.Canceled)
		e.slots(id, 2)
	}},
	{"a contender can be closed twice", func(e *env) {
		l, _ := e.holder(e.fresh(lock.Mutex))
		for range 2 {
			if err := l.Close(); err != nil {
				e.Fatalf("closing: %v", err)
			}
		}
	}},
}
