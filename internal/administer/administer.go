// Package administer makes locks, changes their number of slots and removes them, and
// says what it did:
//
//	a := &administer.Action{Administrator: backend.Administrator(id), ID: id, ...}
//	err := a.CreateSemaphore(ctx)
//
// An action that did not come to its end says in its error how far it came, and which
// command finishes it. What happens to the lock is up to the lock.Administrator.
package administer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"berth/internal/config"
	"berth/internal/interrupt"
	"berth/lock"
)

// DefaultSweep is how far beyond the last slot an action sweeps for leftovers.
// An interrupted deletion leaves the low slots of a lock, never a gap, so leftovers
// come from a slot that was deleted by hand or lost with its node. Making a lock
// sweeps too, or it would take them for its own.
const DefaultSweep = 16

// ErrConflict: what is there contradicts what was asked for.
var ErrConflict = errors.New("not changed")

// Action is one action on one lock by one administrator.
type Action struct {
	lock.Administrator
	ID      lock.ID
	Request Request

	Command  string        // how the action was called, such as "berth semaphore create"
	Naming   []string      // flags with which another command finds the same lock
	Patience time.Duration // for another administrator, where the request has no time limit

	Results  io.Writer // what was done
	Progress io.Writer // what is waited for
}

// Request is what an administrator asks for. Zero means that nothing was said.
type Request struct {
	Slots     int           // how many there shall be
	Add       int           // how many more
	Remove    int           // how many fewer
	Sweep     int           // how many to look for beyond the highest one
	Ascending bool          // the lowest slot is removed first
	Wait      bool          // until nobody holds a removed slot any more
	Timeout   time.Duration // for all of it
}

// oneSize checks that exactly one part of the request says how many slots there
// shall be. Its error wraps config.ErrUsage.
func (r Request) oneSize() error {
	given := 0
	for _, number := range []int{r.Slots, r.Add, r.Remove} {
		if number != 0 {
			given++
		}
	}
	if given != 1 {
		return config.Usagef("give exactly one of --slots N, --add X and --remove X, not %d of them", given)
	}
	return nil
}

// target returns the number of slots wanted, given the present one.
func (a *Action) target(present int) (int, error) {
	switch r := a.Request; {
	case r.Slots > 0:
		return r.Slots, nil
	case present+r.Add > lock.MaxSlots:
		return 0, config.Usagef("--add %d: there are %s already and at most %d are possible; add at most %d",
			r.Add, slots(present), lock.MaxSlots, lock.MaxSlots-present)
	case r.Remove >= present:
		return 0, config.Usagef("--remove %d: there are %s and one has to stay; remove fewer, or all with '%s'",
			r.Remove, slots(present), a.of("destroy"))
	default:
		return present + r.Add - r.Remove, nil
	}
}

// change is Resize. Its error says how far the change got and which command
// finishes it. Another administrator is not waited for without limit, even with
// --wait, which is about holders.
func (a *Action) change(ctx context.Context, sweep int, target func(present int) (int, error)) (
	before, after int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if a.Request.Timeout == 0 {
		others := time.AfterFunc(a.Patience, func() { cancel(interrupt.GaveUp{After: a.Patience}) })
		defer others.Stop()
		asked := target
		target = func(present int) (int, error) {
			others.Stop()
			return asked(present)
		}
	}
	want, begun := 0, false
	before, after, err = a.resize(ctx, sweep, func(present int) (n int, err error) {
		n, err = target(present)
		want, begun = n, err == nil
		return n, err
	})
	if err == nil || !begun {
		return before, after, interrupt.Because(ctx, err)
	}
	err = fmt.Errorf("%w; to finish use: %s", err, a.again(before, after, want))
	if before != after {
		err = fmt.Errorf("stopped on the way: %s now (was %d): %w", slots(after), before, err)
	}
	return before, after, interrupt.Because(ctx, err)
}

// resize is Resize, in the order that is asked for.
func (a *Action) resize(ctx context.Context, sweep int, target func(present int) (int, error)) (
	before, after int, err error) {
	if a.Request.Ascending {
		return a.RemoveAscending(ctx, sweep, target)
	}
	return a.Resize(ctx, sweep, target)
}

// awaitVacant waits, if the request says so, until nobody holds a slot above
// kept. The sweep is included: so an action that was interrupted while it waited
// can be taken up again and waits for the same holders.
func (a *Action) awaitVacant(ctx context.Context, kept, highest int) error {
	if !a.Request.Wait {
		return nil
	}
	last := min(highest+max(a.Request.Sweep, 1), lock.MaxSlots)
	if last <= kept {
		return nil
	}
	which := "every slot"
	if kept > 0 {
		which = fmt.Sprintf("every slot above %d", kept)
	}
	fmt.Fprintf(a.Progress, "%s: waiting until %s of %s is vacant\n", a.Command, which, a.ID)
	err := a.AwaitVacant(ctx, kept+1, last)
	if errors.Is(err, lock.ErrBusy) { // to try again would remove what somebody has made
		return fmt.Errorf("the slots were removed, but there is nothing to wait for any more: %w", err)
	}
	if err != nil {
		return fmt.Errorf("the slots are removed, but %s may still be held: %w; to go on waiting use: %s", which, err,
			a.again(highest, kept, kept))
	}
	return a.say("%s vacant", which)
}

// say prints a result.
func (a *Action) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Results, "%s: %s\n", a.ID, fmt.Sprintf(format, args...))
	return err
}

// again returns the command that finishes an action which began with so many
// slots, left so many and wanted so many. It names the number that is wanted:
// what was given as --add or --remove would be added or removed once more.
func (a *Action) again(before, after, want int) string {
	command, flags := a.Command, []string(nil)
	if a.ID.Kind.Sized() && want > 0 {
		command, flags = a.of("create"), []string{fmt.Sprintf("--slots %d", want)}
		if after > 0 {
			command = a.of("resize")
		}
	}
	if a.Request.Wait {
		flags = append(flags, "--wait")
	}
	if a.Request.Wait || a.Request.Ascending {
		// The next one begins with fewer slots, and has to wait for as many, or to remove them.
		if overshoot := max(a.Request.Sweep, before-after); overshoot != DefaultSweep {
			flags = append(flags, fmt.Sprintf("--sweep %d", overshoot))
		}
	}
	return a.commandLine(command, flags...)
}

// of is another action on this kind of lock.
func (a *Action) of(action string) string { return "berth " + string(a.ID.Kind) + " " + action }

// commandLine is for a user to paste: another action on the same lock.
func (a *Action) commandLine(command string, flags ...string) string {
	return a.ID.CommandLine(command, slices.Concat(flags, a.Naming, a.Flags())...)
}

// slots returns "1 slot" or "3 slots".
func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}
