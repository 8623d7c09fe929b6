package cli

import (
	"context"
	"errors"
	"syscall"

	"berth/internal/config"
	"berth/lock"
)

// Exit statuses. 64 to 78 have the meaning that sysexits.h gives them, the ones
// above 125 the meaning that shells give them.
const (
	// ExitUsage: the command line is wrong.
	ExitUsage = 64
	// ExitUnreachable: no broker could be reached.
	ExitUnreachable = 69
	// ExitInternal: something happened that berth has no name for.
	ExitInternal = 70
	// ExitNotObtained: the slot, or the change that an administrator asked
	// for, was not obtained; trying again later may help.
	ExitNotObtained = 75
	// ExitLost: the slot was lost, with --on-loss exit.
	ExitLost = 76
	// ExitDenied: the broker refused the login or a permission.
	ExitDenied = 77
	// ExitConfig: the configuration is invalid or unsafe.
	ExitConfig = 78
	// ExitCannotExecute: the command is there and cannot be executed.
	ExitCannotExecute = 126
	// ExitNotFound: the command is not there.
	ExitNotFound = 127
	// ExitSignal plus n: signal n ended the command, or berth itself.
	ExitSignal = 128
)

// statuses maps what an error wraps to an exit status. The first match counts,
// so that what a user has to correct comes before what may pass by itself.
var statuses = []struct {
	err    error
	status int
}{
	{config.ErrUsage, ExitUsage},
	{config.ErrInvalid, ExitConfig},
	{lock.ErrUnsafe, ExitConfig},
	{lock.ErrDenied, ExitDenied},
	{lock.ErrLost, ExitLost},
	{lock.ErrUnreachable, ExitUnreachable},
	{lock.ErrFull, ExitNotObtained},
	{lock.ErrAbsent, ExitNotObtained},
	{lock.ErrBusy, ExitNotObtained},
	{lock.ErrUnknown, ExitNotObtained},
	{errConflict, ExitNotObtained},
	{context.DeadlineExceeded, ExitNotObtained},
	{syscall.ENOENT, ExitNotFound},
	{syscall.EACCES, ExitCannotExecute},
	{syscall.ENOEXEC, ExitCannotExecute},
}

// Status returns the exit status for an error: 0 for nil, ExitInternal for one
// that says nothing about itself.
func Status(err error) int {
	if err == nil {
		return 0
	}
	var over exited
	var ended signalled
	var known *decided
	switch {
	case errors.As(err, &over):
		return int(over)
	case errors.As(err, &ended):
		return ExitSignal + int(ended.signal)
	case errors.As(err, &known):
		return known.status
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return ExitInternal
}

// exited is an exit status for which everything has been said already.
type exited int

func (exited) Error() string { return "exited" }

// signalled says that a signal ended what berth was doing.
type signalled struct{ signal syscall.Signal }

func (s signalled) Error() string { return "ended by " + signalName(s.signal) }
