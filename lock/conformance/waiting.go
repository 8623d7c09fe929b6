package conformance

import (
	"context"
	"errors"

	"berth/lock"
)

var waiting = []behaviour{
	{"a released slot is obtained by one who waits", func(e *env) {
		id := e.fresh(lock.Mutex)
		_, held := e.holder(id)
		next := e.waits(id, lock.ErrFull)
		e.release(held)
		e.obtained(next, 1)
	}},
	{"closing a holder frees its slot", func(e *env) {
		e.brief()
		id := e.sized(1)
		l, _ := e.holder(id)
		next := e.waits(id, lock.ErrFull)
		if err := l.Close(); err != nil {
			e.Fatalf("closing the holder: %v", err)
		}
		e.obtained(next, 1)
	}},
	{"every one of several that wait gets its turn", func(e *env) {
		id := e.sized(1)
		_, held := e.holder(id)
		turns := make(chan error)
		for range 4 {
			l := e.contender(id)
			e.refused(l, lock.ErrFull)
			go func() {
				held, err := e.h.woken(e.ctx, l, lock.ErrFull)
				if err == nil {
					err = held.Release(e.ctx)
				}
				turns <- err
			}()
		}
		e.release(held)
		for range 4 {
			if err := <-turns; err != nil {
				e.Errorf("one of those who wait: %v", err)
			}
		}
	}},
	{"a lock that is made is obtained by one who waits", func(e *env) {
		id := e.fresh(e.h.Kind)
		next := e.waits(id, lock.ErrAbsent)
		e.resize(id, 1)
		e.obtained(next, 1)
	}},
	{"a slot that is added is obtained by one who waits", func(e *env) {
		id := e.sized(1)
		e.holder(id)
		next := e.waits(id, lock.ErrFull)
		e.resize(id, 2)
		e.obtained(next, 2)
	}},
	{"a change between the attempt and the wait is not missed", func(e *env) {
		id := e.fresh(lock.Mutex)
		_, held := e.holder(id)
		l := e.contender(id)
		e.refused(l, lock.ErrFull)
		e.release(held)
		if err := l.Wait(e.ctx, e.h.Pause); err != nil {
			e.Fatalf("waiting: %v", err)
		}
		e.obtain(l)
	}},
}

// obtaining is a contender at work on another goroutine.
type obtaining struct {
	held <-chan lock.Held
	end  <-chan error
}

// waits starts a contender whose first attempt has to end in want, and which
// then waits for a slot.
func (e *env) waits(id lock.ID, want error) obtaining {
	e.Helper()
	l := e.contender(id)
	e.refused(l, want)
	got := make(chan lock.Held, 1)
	return obtaining{held: got, end: later(func() error {
		held, err := e.h.woken(e.ctx, l, want)
		if err != nil {
			return err
		}
		got <- held
		return nil
	})}
}

// woken is obtain after an attempt that ended in err. It begins with the wait:
// another attempt might succeed without a wake.
func (h Harness) woken(ctx context.Context, l lock.Lock, err error) (lock.Held, error) {
	if err := h.wait(ctx, l, err); err != nil {
		return nil, err
	}
	return h.obtain(ctx, l)
}

// obtained waits until the contender has the slot.
func (e *env) obtained(o obtaining, slot int) lock.Held {
	e.Helper()
	if err := e.ended("the contender that waits", o.end); err != nil {
		e.Fatalf("the contender that waits: %v", err)
	}
	held := <-o.held
	if held.Slot() != slot {
		e.Fatalf("obtained slot %d, want %d", held.Slot(), slot)
	}
	e.verify(held)
	return held
}

// until repeats f, which may return early without an error, until it fails.
func until(f func() error) error {
	for {
		if err := f(); err != nil {
			return err
		}
	}
}

// isNot ends the test if err wraps any of those.
func (e *env) isNot(err error, those ...error) {
	e.Helper()
	for _, that := range those {
		if errors.Is(err, that) {
			e.Fatalf("error is %v, which must not wrap %q", err, that)
		}
	}
}
