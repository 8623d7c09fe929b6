package administer

import (
	"context"
	"fmt"

	"berth/internal/config"
	"berth/lock"
)

// CreateSemaphore makes a semaphore.
func (a *Action) CreateSemaphore(ctx context.Context) error {
	want := a.Request.Slots
	if want == 0 {
		return config.Usagef("give --slots N, the number of slots")
	}
	before, after, err := a.change(ctx, DefaultSweep, func(present int) (int, error) {
		if present != 0 && present != want {
			return 0, fmt.Errorf("%w: %s exists with %s; to change that use: %s",
				ErrConflict, a.ID, slots(present), a.commandLine(a.of("resize"),
					fmt.Sprintf("--slots %d", want)))
		}
		return want, nil
	})
	return a.sized(before, after, err)
}

// ResizeSemaphore changes how many slots a semaphore has.
func (a *Action) ResizeSemaphore(ctx context.Context) error {
	if err := a.Request.oneSize(); err != nil {
		return err
	}
	before, after, err := a.change(ctx, a.Request.Sweep, func(present int) (int, error) {
		if present == 0 {
			return 0, fmt.Errorf("%s: %w; create it with: %s", a.ID, lock.ErrAbsent, a.ID.CreateCommand(a.Naming...))
		}
		return a.target(present)
	})
	if err := a.sized(before, after, err); err != nil {
		return err
	}
	return a.awaitVacant(ctx, after, max(before, after))
}

// DestroySemaphore removes a semaphore.
func (a *Action) DestroySemaphore(ctx context.Context) error {
	before, _, err := a.change(ctx, a.Request.Sweep, func(int) (int, error) { return 0, nil })
	switch {
	case err != nil:
	case before == 0:
		err = a.say("was not there")
	default:
		err = a.say("destroyed (had %s)", slots(before))
	}
	if err != nil {
		return err
	}
	return a.awaitVacant(ctx, 0, before)
}

// EnableMutex switches a persistent mutex on.
func (a *Action) EnableMutex(ctx context.Context) error {
	before, _, err := a.change(ctx, DefaultSweep, func(present int) (int, error) {
		if present > 1 {
			return 0, fmt.Errorf("%w: %q exists as a semaphore of %s; choose another name, or use --semaphore",
				ErrConflict, a.ID.Name, slots(present))
		}
		return 1, nil
	})
	switch {
	case err != nil:
		return err
	case before == 1:
		return a.say("enabled already")
	}
	return a.say("enabled")
}

// DisableMutex switches a persistent mutex off.
func (a *Action) DisableMutex(ctx context.Context) error {
	before, _, err := a.change(ctx, a.Request.Sweep, func(present int) (int, error) {
		if present > 1 {
			return 0, fmt.Errorf("%w: %q is a semaphore of %s; to remove it use: %s",
				ErrConflict, a.ID.Name, slots(present), a.commandLine("berth semaphore destroy"))
		}
		return 0, nil
	})
	switch {
	case err != nil:
	case before == 0:
		err = a.say("disabled already")
	default:
		err = a.say("disabled")
	}
	if err != nil {
		return err
	}
	return a.awaitVacant(ctx, 0, before)
}

// sized reports the end of a change of size.
func (a *Action) sized(before, after int, err error) error {
	switch {
	case err != nil:
		return err
	case before == after:
		return a.say("%s already", slots(after))
	}
	return a.say("%s (was %d)", slots(after), before)
}
