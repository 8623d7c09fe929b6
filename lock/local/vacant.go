package local

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"berth/lock"
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
	var w *waiter
	err := trust(a.dir)
	if err == nil {
		w, err = await(a.dir, a.backend.looks, event.vacates)
	}
	if gone(err) {
		return ctx.Err() // a lock that never was is held by nobody
	}
	if err != nil {
		return err
	}
	defer w.close()
	first := from
	for {
		w.begin()
		if first, err = a.firstHeld(ctx, first, from, to); err != nil || first == 0 {
			return err
		}
		if err := w.wait(ctx, never); err != nil {
			return err
		}
	}
}

// firstHeld returns a slot in from..to that is held, or 0. It looks at likely
// first: looking at a free slot tells everybody who waits that it is free
// again, ourselves among them, so while likely stays held nothing else is
// touched.
func (a *administrator) firstHeld(ctx context.Context, likely, from, to int) (int, error) {
	if free, err := a.vacant(likely); err != nil || !free {
		return likely, err
	}
	for slot := from; slot <= to; slot++ {
		if err := ctx.Err(); err != nil {
			return slot, err
		}
		if slot == likely {
			continue
		}
		if free, err := a.vacant(slot); err != nil || !free {
			return slot, err
		}
	}
	return 0, ctx.Err()
}

// vacant reports whether nobody has the lock file of slot flocked. It flocks it
// shared for that, so several can look at once, and a contender that came in
// between is woken afterwards. (/proc/locks would not disturb anybody, but does
// not show the locks of other PID namespaces.)
func (a *administrator) vacant(slot int) (bool, error) {
	c, err := tryFlock(lockPath(a.dir, slot), unix.LOCK_SH, 0)
	switch {
	case err == nil:
		return true, c.free()
	case errors.Is(err, errHeld):
		return false, nil
	case gone(err):
		return true, nil
	}
	return false, err
}
