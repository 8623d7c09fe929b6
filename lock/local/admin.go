package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"berth/lock"
	"berth/lock/local/slotdir"
)

// administrator implements lock.Administrator. It keeps nothing open between
// two calls.
type administrator struct {
	id      lock.ID
	dir     slotdir.Dir
	backend *Backend
}

func (a *administrator) check() error {
	if err := checkID(a.id); err != nil {
		return err
	}
	if !a.id.Kind.Administered() {
		return fmt.Errorf("%s: %w", a.id, errNoMutexAdministration)
	}
	return nil
}

// Slots counts the slots.
func (a *administrator) Slots(ctx context.Context) (int, error) {
	if err := a.check(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("cannot count the slots of %s: %w", a.id, err)
	}
	n, err := 0, a.dir.Trust()
	if err == nil {
		n, err = a.dir.Slots()
	}
	if err != nil && !slotdir.Gone(err) {
		return 0, failure("cannot count the slots of "+a.id.String(), a.dir, err, lock.ErrUnknown)
	}
	return n, nil
}

// RemoveAscending implements lock.Administrator: all slots are removed at once.
func (a *administrator) RemoveAscending(ctx context.Context, sweep int, target func(int) (int, error)) (
	before, after int, err error) {
	return a.Resize(ctx, sweep, target)
}

// Resize makes and removes slot files under the administration mutex. Without
// the lock's directory it asks target before it makes one, and then again.
func (a *administrator) Resize(ctx context.Context, sweep int, target func(int) (int, error)) (
	before, after int, err error) {
	if err := a.check(); err != nil {
		return 0, 0, err
	}
	if slotdir.Gone(a.dir.Trust()) {
		// Of a lock that never was there is nothing to remove; nor shall
		// anything be left of an action that makes none.
		if want, err := a.wanted(0, target); err != nil || want == 0 {
			return 0, 0, err
		}
	}
	what := "cannot resize " + a.id.String()
	if err := a.dir.Make(); err != nil {
		return 0, 0, failure(what, a.dir, err, lock.ErrUnreachable)
	}
	mutex, err := a.enter(ctx)
	if err != nil {
		return 0, 0, failure(what, a.dir, err, lock.ErrUnknown)
	}
	defer func() { _ = mutex.Free() }() // closing it is all that matters, and that has happened
	if before, err = a.dir.Slots(); err != nil {
		return 0, 0, failure(what, a.dir, err, lock.ErrUnknown)
	}
	want, err := a.wanted(before, target)
	if err != nil {
		return before, before, err
	}
	if err := a.change(ctx, before, want, sweep); err != nil {
		after, _ = a.dir.Slots()
		return before, after, failure(what, a.dir, err, lock.ErrUnknown)
	}
	return before, want, nil
}

// wanted asks target, and refuses numbers of slots that the lock cannot have.
func (a *administrator) wanted(present int, target func(int) (int, error)) (int, error) {
	want, err := target(present)
	switch {
	case err != nil:
		return 0, err
	case want < 0 || want > lock.MaxSlots:
		return 0, fmt.Errorf("%s cannot have %d slots; choose 0 to %d", a.id, want, lock.MaxSlots)
	case want > 1 && a.id.Kind == lock.PersistentMutex:
		return 0, fmt.Errorf("%s cannot have %d slots; it has one when enabled, use a semaphore for more", a.id, want)
	}
	return want, nil
}

// change removes what is too much, from the top, and then adds what is missing.
func (a *administrator) change(ctx context.Context, before, want, sweep int) error {
	// At least one beyond is looked at: a leftover there would become a slot
	// the moment its predecessor is made.
	top := min(max(before, want)+max(sweep, 1), lock.MaxSlots)
	var leftovers []int
	for slot := top; slot > want; slot-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := os.Remove(a.dir.SlotPath(slot))
		if err == nil && slot > before {
			leftovers = append(leftovers, slot)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(leftovers) > 0 {
		slices.Sort(leftovers)
		a.backend.log.Warn("leftovers beyond the last slot were removed; their holders lose them",
			"lock", a.id.Name, "slots", fmt.Sprint(leftovers))
	}
	for slot := before + 1; slot <= want; slot++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.dir.MakeSlot(slot); err != nil {
			return err
		}
	}
	return nil
}

// enter takes the administration mutex, waiting for its holder.
func (a *administrator) enter(ctx context.Context) (*slotdir.Claim, error) {
	w, err := a.dir.Await(a.backend.looks, slotdir.Event.EndsAdministration)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	told := false
	for {
		w.Begin()
		c, err := a.dir.ClaimAdministration()
		if err == nil {
			err = a.entered(ctx, c)
		}
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, slotdir.ErrHeld):
			return nil, err
		}
		if !told {
			told = true
			a.backend.log.Info("another administrator is changing this lock; waiting for it", "lock", a.id.Name)
		}
		if err := w.Wait(ctx, slotdir.Never); errors.Is(err, slotdir.ErrUnwatched) {
			return nil, err
		} else if err != nil {
			return nil, fmt.Errorf("%w; try again when it has finished: %w", lock.ErrBusy, err)
		}
	}
}

// entered checks that what was taken still is the mutex and somebody waits for
// it, and gives it up if not.
func (a *administrator) entered(ctx context.Context, c *slotdir.Claim) error {
	ours, err := c.Current()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && !ours {
		err = errors.New("the file of the administration mutex was replaced; do not remove lock files")
	}
	if err != nil {
		_ = c.Free()
	}
	return err
}

// Flags implements lock.Administrator.
func (a *administrator) Flags() []string { return nil }

// Close has nothing to give up.
func (a *administrator) Close() error { return nil }
