package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
)

// Resize implements lock.Administrator.
func (a *administrator) Resize(ctx context.Context, sweep int, target func(present int) (int, error)) (before, after int, err error) {
	act, err := a.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer act.end(ctx)
	before, after, err = act.resize(ctx, sweep, target)
	if err == nil && after > before {
		a.wake(ctx, after-before)
	}
	return before, after, err
}

// wakeTimeout bounds the waking of waiters after slots were added.
const wakeTimeout = 2 * time.Second

// wake makes batons for the slots that were added. Without them waiters find the
// slots at their next look.
func (a *administrator) wake(ctx context.Context, slots int) {
	bounded, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	c := courier{dial: func(ctx context.Context) (*conn, error) { return a.dialer.dial(ctx, "administration") }}
	defer c.close()
	for range min(slots, ledgerLength) {
		found, err := c.deliver(bounded, a.names.batons(), baton)
		if err != nil || found != present {
			return // nobody has ever waited, or the broker does not take it now
		}
	}
}

func (a *action) resize(ctx context.Context, sweep int, target func(present int) (int, error)) (before, after int, err error) {
	if err := a.enter(ctx); err != nil {
		return 0, 0, fmt.Errorf("cannot begin the administration of %s: %w", a.id, err)
	}
	defer a.leave(ctx)
	before, err = a.count(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot count the slots of %s: %w", a.id, err)
	}
	want, err := target(before)
	if err != nil {
		return before, before, err
	}
	if err := a.checkSize(want); err != nil {
		return before, before, err
	}
	after, err = a.shrink(ctx, before, want, sweep)
	if err != nil {
		return before, after, err
	}
	after, err = a.grow(ctx, after, want)
	return before, after, err
}

func (a *administrator) checkSize(want int) error {
	limit := lock.MaxSlots
	if a.id.Kind == lock.PersistentMutex {
		limit = 1
	}
	if want < 0 || want > limit {
		return fmt.Errorf("cannot give %s %d slots; choose 0 to %d", a.id, want, limit)
	}
	return nil
}

// shrink deletes every slot above want, and sweep slots beyond the larger of
// both numbers, in descending order: so what is left has no gaps whenever it
// is interrupted. It returns how many slots are left.
func (a *action) shrink(ctx context.Context, present, want, sweep int) (int, error) {
	top := max(present, want)
	top += min(max(sweep, 0), lock.MaxSlots-top)
	for slot := top; slot > want; slot-- {
		if err := a.line.remove(ctx, a.names.exists(slot)); err != nil {
			return min(present, slot), a.interrupted("remove", slot, min(present, slot), err)
		}
	}
	return min(present, want), nil
}

// grow creates slots in ascending order. It returns how many there are.
func (a *action) grow(ctx context.Context, present, want int) (int, error) {
	for slot := present + 1; slot <= want; slot++ {
		// One with other arguments exists as well.
		if err := a.line.make(ctx, a.names.exists(slot)); err != nil && !errors.Is(err, errDiffers) {
			return slot - 1, a.interrupted("create", slot, slot-1, err)
		}
	}
	return want, nil
}

// interrupted says how far the action got. Whether the last step was carried
// out is not known where no answer came.
func (a *action) interrupted(verb string, slot, left int, err error) error {
	if errors.Is(err, lock.ErrUnreachable) || errors.Is(err, errTaken) {
		err = fmt.Errorf("%w: %w", err, lock.ErrUnknown)
	}
	return fmt.Errorf("%s was left with %d slots; slot %d was to be %sd; repeat the command: %w", a.id, left, slot, verb, err)
}
