package conformance

import (
	"context"
	"errors"
	"fmt"

	"berth/lock"
)

var administration = []behaviour{
	{"a semaphore is made, grown, shrunk and removed", func(e *env) {
		id := e.fresh(e.h.Kind)
		a := e.administrator(id)
		e.removeLater(id)
		present := 0
		for _, want := range []int{0, 3, 3, 5, 2, 1, 1, 0, 0, 2} {
			before, after, err := a.Resize(e.ctx, 0, to(want))
			if err != nil || before != present || after != want {
				e.Fatalf("resizing to %d: from %d to %d, %v; want from %d", want, before, after, err, present)
			}
			present = want
			e.slots(id, want)
		}
		e.fill(id, 2)
		e.refused(e.contender(id), lock.ErrFull)
	}},
	{"a resize is told the present number", func(e *env) {
		id := e.sized(2)
		_, after, err := e.administrator(id).Resize(e.ctx, 0,
			func(present int) (int, error) { return present + 2, nil })
		if err != nil || after != 4 {
			e.Fatalf("two more than two are %d, %v", after, err)
		}
		e.slots(id, 4)
	}},
	{"a resize that its target refuses changes nothing", func(e *env) {
		id := e.sized(2)
		_, held := e.holder(id)
		e.h.AddSlot(e.T, id, 4)
		no := errors.New("no")
		before, after, err := e.administrator(id).Resize(e.ctx, 5, func(int) (int, error) { return 1, no })
		e.is(err, no)
		if before != 2 || after != 2 {
			e.Fatalf("it reports a change from %d to %d", before, after)
		}
		e.slots(id, 2)
		e.verify(held)
		e.h.AddSlot(e.T, id, 3)
		e.slots(id, 4) // the leftover was not swept
	}},
	{"numbers of slots that cannot be are refused", func(e *env) {
		id := e.sized(1)
		for _, n := range []int{-1, lock.MaxSlots + 1} {
			if _, _, err := e.administrator(id).Resize(e.ctx, 0, to(n)); err == nil {
				e.Errorf("resized to %d slots", n)
			}
		}
		e.slots(id, 1)
	}},
	{"a sweep removes leftovers", func(e *env) {
		id := e.sized(2)
		e.h.AddSlot(e.T, id, 4)
		e.h.AddSlot(e.T, id, 6)
		if _, _, err := e.administrator(id).Resize(e.ctx, 4, to(2)); err != nil {
			e.Fatalf("sweeping: %v", err)
		}
		e.h.AddSlot(e.T, id, 3)
		e.slots(id, 3)
		e.h.AddSlot(e.T, id, 5)
		e.h.AddSlot(e.T, id, 4)
		e.slots(id, 5)
	}},
	{"a slot that is added does not bring a leftover behind it back", func(e *env) {
		id := e.sized(1)
		e.h.AddSlot(e.T, id, 3)
		e.resize(id, 2)
		e.slots(id, 2)
	}},
	{"administrators work one at a time", func(e *env) {
		id := e.sized(1)
		var ends []<-chan error
		for range 4 {
			a := e.administrator(id)
			ends = append(ends, later(func() error {
				_, _, err := a.Resize(e.ctx, 0, func(present int) (int, error) { return present + 1, nil })
				return err
			}))
		}
		for _, end := range ends {
			if err := e.ended("an administrator", end); err != nil {
				e.Error(err)
			}
		}
		e.slots(id, 5)
	}},
	{"an administrator that cannot wait for another says so", busy},
	{"a persistent mutex is enabled and disabled", func(e *env) {
		id := e.fresh(lock.PersistentMutex)
		e.resize(id, 1)
		e.resize(id, 1)
		_, held := e.holder(id)
		e.resize(id, 0)
		e.is(held.Verify(e.ctx), lock.ErrLost)
		_ = held.Release(e.ctx)
		e.refused(e.contender(id), lock.ErrAbsent)
	}},
	{"a persistent mutex has one slot at most", func(e *env) {
		id := e.fresh(lock.PersistentMutex)
		e.resize(id, 1)
		if _, _, err := e.administrator(id).Resize(e.ctx, 0, to(2)); err == nil {
			e.Error("it was given two slots")
		}
		e.slots(id, 1)
	}},
	{"a mutex has no administration", func(e *env) {
		a := e.administrator(e.fresh(lock.Mutex))
		_, slotsErr := a.Slots(e.ctx)
		_, _, resizeErr := a.Resize(e.ctx, 0, to(1))
		for what, err := range map[string]error{
			"Slots": slotsErr, "Resize": resizeErr, "AwaitVacant": a.AwaitVacant(e.ctx, 1, 1),
		} {
			if err == nil {
				e.Errorf("%s of a mutex succeeded", what)
			}
		}
	}},
}

// slots makes sure that a lock has so many slots.
func (e *env) slots(id lock.ID, want int) {
	e.Helper()
	if n, err := e.administrator(id).Slots(e.ctx); err != nil || n != want {
		e.Fatalf("%s has %d slots, %v; want %d", id, n, err, want)
	}
}

func busy(e *env) {
	id := e.sized(1)
	inside, leave := make(chan struct{}), make(chan struct{})
	first := e.administrator(id)
	done := later(func() error {
		_, _, err := first.Resize(e.ctx, 0, func(present int) (int, error) {
			close(inside)
			<-leave
			return present + 1, nil
		})
		return err
	})
	<-inside
	second := e.administrator(id)
	asked := false
	var err error
	// A busy machine may need longer to find the first at work.
	for bound, late := briefly, true; late && e.ctx.Err() == nil; bound *= 2 {
		ctx, cancel := context.WithTimeout(e.ctx, bound)
		_, _, err = second.Resize(ctx, 0, func(int) (int, error) { asked = true; return 5, nil })
		cancel()
		late = errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrBusy)
	}
	close(leave)
	e.is(err, lock.ErrBusy)
	if asked {
		e.Error("it was asked for its target beside the first")
	}
	if err := e.ended("the first administrator", done); err != nil {
		e.Fatal(fmt.Errorf("the first administrator: %w", err))
	}
	e.slots(id, 2)
}
