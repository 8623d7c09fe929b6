package cli

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"berth/lock"
)

func TestActionEndsAtItsTimeLimit(t *testing.T) {
	ctx, release := actionContext(context.Background(), actionFlags{timeout: time.Millisecond})
	defer release()
	<-ctx.Done()
	if err := reason(ctx, lock.ErrBusy); Status(err) != ExitNotObtained || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, status %d", err, Status(err))
	}
}

func TestActionEndsOnASignalWithItsStatus(t *testing.T) {
	ctx, release := actionContext(context.Background(), actionFlags{wait: true})
	defer release()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := reason(ctx, lock.ErrUnknown); Status(err) != ExitSignal+int(syscall.SIGTERM) {
		t.Errorf("got %v, status %d", err, Status(err))
	}
}

func TestOnlyAnActionThatWaitsHasNoTimeLimit(t *testing.T) {
	for _, c := range []struct {
		flags   actionFlags
		limited bool
	}{{actionFlags{}, true}, {actionFlags{wait: true}, false}, {actionFlags{wait: true, timeout: time.Hour}, true}} {
		ctx, release := actionContext(context.Background(), c.flags)
		if _, limited := ctx.Deadline(); limited != c.limited {
			t.Errorf("%+v: limited is %v", c.flags, limited)
		}
		release()
	}
}

func TestTargetOfAResize(t *testing.T) {
	for _, c := range []struct {
		flags   actionFlags
		present int
		want    int // 0: refused
	}{
		{actionFlags{slots: 7}, 3, 7},
		{actionFlags{add: 2}, 3, 5},
		{actionFlags{remove: 2}, 3, 1},
		{actionFlags{remove: 3}, 3, 0},
		{actionFlags{remove: 4}, 3, 0},
		{actionFlags{add: lock.MaxSlots}, 1, 0},
	} {
		got, err := c.flags.target(c.present)
		if got != c.want || (err == nil) == (c.want == 0) || (err != nil && Status(err) != ExitUsage) {
			t.Errorf("%+v of %d: got %d, %v", c.flags, c.present, got, err)
		}
	}
}
