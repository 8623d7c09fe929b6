package loop

import (
	"errors"
	"syscall"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/supervisor"
	"berth/supervisor/machine"
)

// uncounted is the tally of a loop that nobody counts.
type uncounted struct{}

func (uncounted) Won(time.Duration)                         {}
func (uncounted) Started(time.Duration, bool)               {}
func (uncounted) Proved(boottime.Instant, boottime.Instant) {}
func (uncounted) Verified(time.Duration, error)             {}
func (uncounted) Lost(supervisor.LossCause, error)          {}
func (uncounted) Checked(supervisor.CheckOutcome)           {}
func (uncounted) Cut(supervisor.CutCause)                   {}
func (uncounted) Step(syscall.Signal)                       {}

// tally returns whom to tell what can be counted.
func tally(cfg supervisor.Config) supervisor.Tally {
	if cfg.Tally == nil {
		return uncounted{}
	}
	return cfg.Tally
}

// causeOf says how a loss became known.
func causeOf(err error) supervisor.LossCause {
	switch {
	case errors.Is(err, errOverdue):
		return supervisor.DeadlinePassed
	case errors.Is(err, machine.ErrNotVerified), !errors.Is(err, lock.ErrLost):
		return supervisor.NotVerified
	}
	return supervisor.Proven
}
