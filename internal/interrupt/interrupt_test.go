package interrupt

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestActionEndsAtItsTimeLimit(t *testing.T) {
	ctx, release := Context(context.Background(), time.Millisecond)
	defer release()
	<-ctx.Done()
	if err := Because(ctx, lock.ErrBusy); !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestActionEndsOnASignal(t *testing.T) {
	ctx, release := Context(context.Background(), 0)
	defer release()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := Because(ctx, lock.ErrUnknown); !errors.Is(err, Signalled{syscall.SIGTERM}) {
		t.Errorf("got %v", err)
	}
}
