package conformance

import (
	"context"

	"berth/lock"
)

var removal = []behaviour{
	{"a removed slot is lost by its holder and by nobody else", func(e *env) {
		id := e.sized(3)
		held := e.fill(id, 3)
		e.resize(id, 2)
		e.is(held[3].Verify(e.ctx), lock.ErrRemoved)
		e.verify(held[1])
		e.verify(held[2])
		_ = held[3].Release(e.ctx)
		e.verify(held[1])
		e.verify(held[2])
		e.refused(e.contender(id), lock.ErrFull)
	}},
	{"a slot that was removed and added again stays with its holder until it is released", func(e *env) {
		id := e.sized(1)
		_, held := e.holder(id)
		e.resize(id, 0)
		e.is(held.Verify(e.ctx), lock.ErrLost)
		e.resize(id, 1)
		e.refused(e.contender(id), lock.ErrFull)
		next := e.waits(id, lock.ErrFull)
		_ = held.Release(e.ctx)
		e.obtained(next, 1)
	}},
	{"a loss that was reported has a cause", func(e *env) {
		id := e.sized(1)
		_, held := e.holder(id)
		if held.Cause() != nil {
			e.Fatalf("a cause without a loss: %v", held.Cause())
		}
		e.resize(id, 0)
		e.is(held.Verify(e.ctx), lock.ErrLost)
		select {
		case <-held.Lost():
			e.is(held.Cause(), lock.ErrLost)
		default: // a backend may leave it to the next verification
		}
	}},
	{"a slot that nothing has damaged is reclaimed at once", func(e *env) {
		_, held := e.holder(e.fresh(lock.Mutex))
		term := held.Term()
		for range 2 {
			if err := held.Reclaim(e.ctx); err != nil {
				e.Fatalf("reclaiming a slot that is held: %v", err)
			}
			e.verify(held)
		}
		if held.Term() != term {
			e.Fatalf("the term was %d and is %d in the same holding", term, held.Term())
		}
	}},
	{"a removed slot cannot be reclaimed", func(e *env) {
		id := e.sized(1)
		_, held := e.holder(id)
		e.resize(id, 0)
		e.is(held.Reclaim(e.ctx), lock.ErrRemoved)
	}},
	{"a release is not reported as a loss", func(e *env) {
		_, held := e.holder(e.fresh(lock.Mutex))
		e.release(held)
		select {
		case <-held.Lost():
			e.Fatalf("Lost is closed: %v", held.Cause())
		default:
		}
	}},
	{"waiting for vacancy ends when the holders are gone", func(e *env) {
		id := e.sized(3)
		held := e.fill(id, 3)
		a := e.administrator(id)
		e.resize(id, 1)
		done := later(func() error { return a.AwaitVacant(e.ctx, 2, 3) })
		_ = held[3].Release(e.ctx)
		e.still(a, 2, 3)
		e.running("AwaitVacant", done)
		_ = held[2].Release(e.ctx)
		if err := e.ended("AwaitVacant", done); err != nil {
			e.Fatalf("waiting for vacancy: %v", err)
		}
		e.verify(held[1])
	}},
	{"waiting for vacancy ends at once where nobody holds a slot", func(e *env) {
		id := e.sized(2)
		held := e.fill(id, 2)
		e.release(held[2])
		if err := e.administrator(id).AwaitVacant(e.ctx, 2, 5); err != nil {
			e.Fatalf("waiting for vacancy: %v", err)
		}
		e.verify(held[1])
		e.holder(id) // slot 2 is as obtainable as before
		if err := e.administrator(e.fresh(e.h.Kind)).AwaitVacant(e.ctx, 1, 2); err != nil {
			e.Fatalf("waiting for the vacancy of a lock that never was: %v", err)
		}
	}},
}

// fill obtains all slots, each in a process of its own, by number.
func (e *env) fill(id lock.ID, slots int) map[int]lock.Held {
	e.Helper()
	all := map[int]lock.Held{}
	for range slots {
		_, held := e.holder(id)
		all[held.Slot()] = held
	}
	if len(all) != slots {
		e.Fatalf("obtained the slots %v, want %d different ones", all, slots)
	}
	return all
}

// still makes sure that the slots are not vacant: the wait for it outlasts a
// context that ends while it waits.
func (e *env) still(a lock.Administrator, from, to int) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, briefly)
	defer cancel()
	e.is(a.AwaitVacant(ctx, from, to), context.DeadlineExceeded)
}

// running makes sure that what later began has not ended.
func (e *env) running(what string, done <-chan error) {
	e.Helper()
	select {
	case err := <-done:
		e.Fatalf("%s returned too early: %v", what, err)
	default:
	}
}
