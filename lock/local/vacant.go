package local

import (
	"context"
	"fmt"

	"berth/lock"
	"berth/lock/local/slotdir"
)

// AwaitVacant sleeps in the kernel until nobody has a lock file of the slots
// flocked.
func (a *administrator) AwaitVacant(ctx context.Context, from, to int) error {
	if err := a.check(); err != nil {
		return err
	}
	if from > to {
		return nil
	}
	if from < 1 || to > lock.MaxSlots {
		return fmt.Errorf("%s has no slots %d to %d; choose from 1 to %d", a.id, from, to, lock.MaxSlots)
	}
	if err := a.awaitVacant(ctx, from, to); err != nil {
		return failure(fmt.Sprintf("cannot wait for slots %d to %d of %s", from, to, a.id), a.dir, err, lock.ErrUnknown)
	}
	return nil
}

func (a *administrator) awaitVacant(ctx context.Context, from, to int) error {
	var w *slotdir.Waiter
	err := a.dir.Trust()
	if err == nil {
		w, err = a.dir.Await(a.backend.looks, slotdir.Event.Vacates)
	}
	if slotdir.Gone(err) {
		return ctx.Err() // a lock that never was is held by nobody
	}
	if err != nil {
		return err
	}
	defer w.Close()
	first := from
	for {
		w.Begin()
		if first, err = a.firstHeld(ctx, first, from, to); err != nil || first == 0 {
			return err
		}
		if err := w.Wait(ctx, slotdir.Never); err != nil {
			return err
		}
	}
}

// firstHeld returns a slot in from..to that is held, or 0. It looks at likely
// first: looking at a free slot tells everybody who waits that it is free
// again, ourselves among them, so while likely stays held nothing else is
// touched.
func (a *administrator) firstHeld(ctx context.Context, likely, from, to int) (int, error) {
	if free, err := a.dir.Vacant(likely); err != nil || !free {
		return likely, err
	}
	for slot := from; slot <= to; slot++ {
		if err := ctx.Err(); err != nil {
			return slot, err
		}
		if slot == likely {
			continue
		}
		if free, err := a.dir.Vacant(slot); err != nil || !free {
			return slot, err
		}
	}
	return 0, ctx.Err()
}
