package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/boottime"
	"berth/supervisor"
)

// Run runs a program beside the command, by a guard of its own, and returns when its whole tree is dead. nil: it has
// ended with status 0. What it leaves running is killed, and all of it after the limit or at the end of ctx. The error
// says in a few words how it failed. What may not be signalled, or does not end at KILL, is awaited: stuck is told which
// process it is by supervisor.Refused or supervisor.Lasting, perhaps more than once.
func (h *Host) Run(ctx context.Context, spec Spec, limit time.Duration, stuck func(supervisor.GuardEvent)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g, err := h.Launch(spec)
	if err != nil {
		return err
	}
	// The limit is the guard's deadline: it kills by itself.
	_ = g.Start(supervisor.Start{Deadline: boottime.Now().Add(limit), Last: true})
	abandon := time.NewTimer(limit + leaveTimeout)
	defer abandon.Stop()
	result, done, settled := errors.New("its guard died"), ctx.Done(), false
	for {
		select {
		case e, open := <-g.Events():
			if !open {
				return result
			}
			switch e.Kind {
			case supervisor.Unusable:
				result = e.Err
			case supervisor.NotStarted:
				result = fmt.Errorf("it cannot be executed: %w", e.Errno)
			case supervisor.Refused:
				stuck(e)
			case supervisor.Lasting:
				if e.Left {
					stuck(e)
				}
			case supervisor.Overdue:
				result, settled = fmt.Errorf("it took longer than %s and was killed", limit), true
			case supervisor.Exited:
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
			abandon.Reset(leaveTimeout)
		case <-abandon.C:
			g.Abandon()
		}
	}
}
