package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"berth/internal/administer"
	"berth/internal/config"
	"berth/internal/guard"
	"berth/internal/interrupt"
	"berth/internal/runner"
	"berth/lock"
	"berth/supervisor"
)

func TestStatusFollowsWhatWentWrong(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{nil, 0},
		{config.ErrUsage, 64},
		{config.Usagef("x"), 64},
		{lock.ErrUnreachable, 69},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), 75},
		{lock.ErrSilent, 69},
		{lock.ErrFull, 75},
		{lock.ErrAbsent, 75},
		{lock.ErrBusy, 75},
		{lock.ErrUnknown, 75},
		{lock.ErrLost, 76},
		{lock.ErrDenied, 77},
		{errors.Join(lock.ErrUnreachable, lock.ErrDenied), 77},
		{config.ErrInvalid, 78},
		{lock.ErrUnsafe, 78},
		{syscall.EACCES, 126},
		{syscall.ENOENT, 127},
		{fmt.Errorf("%w (%w)", lock.ErrUnknown, interrupt.Signalled{Signal: syscall.SIGTERM}), 143},
		{supervisor.Exit{Status: 3}, 3},
		{supervisor.Exit{Status: 3, Err: lock.ErrLost}, 3},
		{supervisor.Exit{Err: lock.ErrUnsafe}, 78},
		{errors.New("anything"), 70},
		{errors.Join(lock.ErrUnsafe, lock.ErrUnknown), 78},
		{errors.Join(lock.ErrDenied, lock.ErrUnknown), 77},
		{errors.Join(lock.ErrUnreachable, lock.ErrUnknown), 69},
		{administer.ErrConflict, 75},
		{lock.Errorf(runner.ErrNoGuard, "%w", syscall.ENOENT), 126},
		{guard.ErrNamespace, 78},
	} {
		if got := Status(c.err); got != c.status {
			t.Errorf("Status(%v) = %d, want %d", c.err, got, c.status)
		}
	}
}

func TestPanicHasAStatusOfItsOwn(t *testing.T) {
	if got := orFault(func() int { panic("for a test, together with the stack above") }); got != supervisor.ExitInternal {
		t.Errorf("the status is %d", got)
	}
	if got := orFault(func() int { return 7 }); got != 7 {
		t.Errorf("without a panic the status is %d", got)
	}
}
