package cli

import (
	"context"
	"errors"
	"syscall"

	"berth/internal/administer"
	"berth/internal/config"
	"berth/internal/guard"
	"berth/internal/interrupt"
	"berth/internal/runner"
	"berth/lock"
	"berth/supervisor"
)

// errRefused: a holder does not do what it is asked to.
var errRefused = errors.New("refused")

// statuses maps what an error wraps to an exit status. The first match counts,
// so that what a user has to correct comes before what may pass by itself.
var statuses = []struct {
	err    error
	status int
}{
	{guard.ErrNamespace, supervisor.ExitConfig},
	{runner.ErrNoGuard, supervisor.ExitCannotExecute},
	{config.ErrUsage, supervisor.ExitUsage},
	{config.ErrInvalid, supervisor.ExitConfig},
	{lock.ErrUnsafe, supervisor.ExitConfig},
	{lock.ErrDenied, supervisor.ExitDenied},
	{lock.ErrLost, supervisor.ExitLost},
	{lock.ErrUnreachable, supervisor.ExitUnreachable},
	{lock.ErrSilent, supervisor.ExitUnreachable},
	{lock.ErrFull, supervisor.ExitNotObtained},
	{lock.ErrAbsent, supervisor.ExitNotObtained},
	{lock.ErrBusy, supervisor.ExitNotObtained},
	{lock.ErrUnknown, supervisor.ExitNotObtained},
	{administer.ErrConflict, supervisor.ExitNotObtained},
	{errRefused, supervisor.ExitNotObtained},
	{supervisor.ErrRefused, supervisor.ExitNotObtained},
	{supervisor.ErrUnhealthy, supervisor.ExitCut},
	{supervisor.ErrOverran, supervisor.ExitCut},
	{context.DeadlineExceeded, supervisor.ExitNotObtained},
	{syscall.ENOENT, supervisor.ExitNotFound},
	{syscall.EACCES, supervisor.ExitCannotExecute},
	{syscall.ENOEXEC, supervisor.ExitCannotExecute},
}

// Status returns the exit status for an error: 0 for nil, supervisor.ExitInternal for one
// that says nothing about itself.
func Status(err error) int {
	if err == nil {
		return 0
	}
	var exit supervisor.Exit
	var ended interrupt.Signalled
	switch {
	case errors.As(err, &exit) && (exit.Status != 0 || exit.Err == nil):
		return exit.Status
	case errors.As(err, &ended):
		return supervisor.ExitSignal + int(ended.Signal)
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return supervisor.ExitInternal
}

// said reports whether nothing is left to say about an error.
func said(err error) bool {
	var exit supervisor.Exit
	return err == nil || errors.As(err, &exit) && exit.Err == nil
}

// What the pages of the commands say about it.
const (
	exitStatusesOfRun = `
Exit status:
  the command's own   it ran and ended by itself; 128+n if signal n ended it
  2    berth crashed, and stderr says why; a command may end with 2, too
  64   wrong usage
  69   no broker could be reached, the connection ended before the command ran,
       or a queue of the lock did not answer (with --try or --timeout)
  70   another error, such as output that cannot be written, or a fault of
       berth's own
  75   no slot was obtained, or on_acquire refused it (with --try or --timeout)
  76   the slot was lost (with --on-loss exit or --try)
  77   the broker refused the login or a permission; the directory of a
       local lock may not be used
  78   the configuration is invalid or unsafe
  124  the command was ended because it had run for --max-run, or because its
       health checks failed (with --on-loss exit or --try)
  126  the command cannot be executed
  127  the command is not found
`

	exitStatusesOfAction = `
Exit status:
  0    done, or nothing was to be done
  64   wrong usage
  69   the broker could not be reached
  70   another error, such as output that cannot be written
  75   not done: the lock is in another state, another administrator is
       changing it, the broker gave no clear answer, or the time was over
  77   the broker refused the login or a permission; the directory of a
       local lock may not be used
  78   the configuration is invalid
  128+n  signal n ended berth
`

	exitStatusesOfStatus = `
Exit status:
  0    done
  64   wrong usage
  69   the broker, or its management API, could not be reached
  70   another error, such as output that cannot be written
  75   there is no such lock, the broker gave no clear answer, or the time was
       over
  77   the broker refused the login or a permission; the directory of a
       local lock may not be used
  78   the configuration is invalid
  128+n  signal n ended berth: Ctrl-C ends --watch with 130, a reader that goes
       away, such as head(1), with 141
`

	exitStatusesOfRequest = `
Exit status:
  0    the berth that was asked does it
  64   wrong usage
  69   the broker could not be reached
  70   another error, such as output that cannot be written
  75   there is no such lock, the slot has no holder, the holder refuses or
       does not answer, the broker gave no clear answer, or the time was over
  77   the broker refused the login or a permission; the directory of a
       local lock may not be used
  78   the configuration is invalid
  128+n  signal n ended berth
`

	exitStatusesOfCheck = `
Exit status:
  0    safe; with --connect, the broker can carry it
  64   wrong usage
  69   no broker could be reached, or not its management API (with --connect)
  70   another error, such as output that cannot be written
  75   the broker could not answer everything; try again
  77   the broker refused the login or a permission, or the directory of local
       locks cannot be used (with --connect)
  78   the configuration is invalid or unsafe
  128+n  signal n ended berth (with --connect)
`
)
