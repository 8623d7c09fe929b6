package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// ErrUnjudged: how a program would have ended is not known.
var ErrUnjudged = errors.New("it did not come to its end")

// Beside is how a program runs beside the command.
type Beside struct {
	Limit   time.Duration           // it is killed after that
	Start   supervisor.Start        // Deadline is that of the slot in which it runs, 0: there is none
	Renewed <-chan boottime.Instant // that deadline, when it has moved; nil: it does not

	// Stuck is told which process may not be signalled, or does not end at KILL, by wire.Refused or
	// wire.Lasting, perhaps more than once. Such a process is awaited.
	Stuck func(wire.Event)
}

// deadline is when the program's guard kills it by itself.
func (b Beside) deadline(limit, slot boottime.Instant) boottime.Instant {
	if slot != 0 && slot < limit {
		return slot
	}
	return limit
}

// Run runs a program beside the command, by a guard of its own, and returns when its whole tree is dead. nil: it has
// ended with status 0. What it leaves running is killed, and all of it after the limit, at the slot's deadline or at
// the end of ctx. The error says in a few words how it failed, and wraps ErrUnjudged where that is not known.
func (h *Host) Run(ctx context.Context, spec Spec, how Beside) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g, err := h.Launch(spec)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnjudged, err)
	}
	limit := boottime.Now().Add(how.Limit)
	start := how.Start
	start.Deadline = how.deadline(limit, start.Deadline)
	_ = g.Start(start)
	late := time.NewTimer(how.Limit + leaveTimeout) // its guard keeps the limit, unless it is stopped
	defer late.Stop()
	result, done, settled := fmt.Errorf("%w: its guard died", ErrUnjudged), ctx.Done(), false
	for {
		select {
		case slot := <-how.Renewed:
			_ = g.Renew(how.deadline(limit, slot)) // a guard that is gone says so by its events
		case e, open := <-g.Events():
			if !open {
				return result
			}
			switch e.Kind {
			case wire.Unusable:
				result = fmt.Errorf("%w: %w", ErrUnjudged, e.Err)
			case wire.NotStarted:
				result = fmt.Errorf("it cannot be executed: %w", e.Errno)
			case wire.Refused:
				how.Stuck(e)
			case wire.Lasting:
				if e.Left {
					how.Stuck(e)
				}
			case wire.Overdue:
				_ = g.Kill() // it does that already, and goes on to tell of it
				result, settled = fmt.Errorf("%w: the slot's deadline has passed", ErrUnjudged), true
				if limit.Passed() {
					result = fmt.Errorf("it took longer than %s and was killed", how.Limit)
				}
			case wire.Exited:
				if e.Left {
					_ = g.Kill()
				}
				if e.Orphans || settled {
					break
				}
				result = nil
				if failure := supervisor.Failure(e.Status); failure != "" {
					result = errors.New(failure)
				}
			}
		case <-done:
			result, done, settled = ctx.Err(), nil, true
			_ = g.Kill()
		case <-late.C:
			_ = g.Kill()
		}
	}
}
