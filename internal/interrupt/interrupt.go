// Package interrupt ends an action that a user waits for: at its time limit, and
// on a signal. The error that the action then ends with says which it was.
//
//	ctx, release := interrupt.Context(parent, limit)
//	defer release()
//	err := interrupt.Because(ctx, act(ctx))
//
// It is not for `berth run`, where signals are the command's.
package interrupt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"berth/signals"
)

// Context returns a context that ends at the limit and on TERM, INT, QUIT and HUP,
// with a cause that says which. A limit of zero is none. release frees it.
func Context(parent context.Context, limit time.Duration) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	free := func() {}
	if limit > 0 {
		ctx, free = context.WithTimeoutCause(ctx, limit, GaveUp{limit})
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, ending()...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-caught:
			cancel(Signalled{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		free()
		cancel(nil)
		<-done
	}
}

// ending returns the signals that end an action, without those that were
// ignored when berth was started (nohup).
func ending() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP}
	return slices.DeleteFunc(ends, signal.Ignored)
}

// GaveUp is the cause of an action that reached its time limit. It wraps
// context.DeadlineExceeded.
type GaveUp struct{ After time.Duration }

func (g GaveUp) Error() string { return fmt.Sprintf("gave up after %s", g.After) }

// Unwrap returns what errors.Is finds.
func (g GaveUp) Unwrap() error { return context.DeadlineExceeded }

// Signalled is the cause of an action that a signal ended.
type Signalled struct{ Signal syscall.Signal }

func (s Signalled) Error() string { return "ended by " + signals.Name(s.Signal) }

// Because adds to an action's error, if it has one, why the context ended early.
func Because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}
