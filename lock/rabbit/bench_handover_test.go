package rabbit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/lock"
)

// From Release by the holder to Ready at the one that has waited.
func BenchmarkHandover(b *testing.B) {
	b.Run("in a loop", func(b *testing.B) { handOver(b, fresh(lock.Mutex), 0) })
	b.Run("after a rest", func(b *testing.B) { handOver(b, fresh(lock.Mutex), rest) })
	b.Run("by a token, after a rest", func(b *testing.B) {
		id := fresh(lock.TokenSemaphore)
		resize(b, shared, id, 1)
		handOver(b, id, rest)
		resize(b, shared, id, 0)
	})
}

func handOver(b *testing.B, id lock.ID, rest time.Duration) {
	ctx := measured(b)
	holder, waiter := entered(ctx, b, id), entered(ctx, b, id)
	held := seize(ctx, b, holder)
	var s stopwatch
	for b.Loop() {
		won := make(chan win, 1)
		go func() { won <- queue(ctx, waiter) }()
		awaitQueued(ctx, b, id)
		time.Sleep(rest)
		// The next one's command starts as soon as it may, whether Release has
		// returned here or not.
		released := make(chan error, 1)
		s.run(b, func() error {
			go func(h lock.Held) { released <- h.Release(ctx) }(held)
			next := <-won
			held = next.held
			return next.err
		})
		if err := <-released; err != nil {
			b.Fatal(err)
		}
		holder, waiter = waiter, holder
	}
	if err := held.Release(ctx); err != nil {
		b.Fatal(err)
	}
	s.report(b)
}

// win is how the wait for a lock ended.
type win struct {
	held lock.Held
	err  error
}

// queue waits for the lock and returns once its command could start.
func queue(ctx context.Context, l lock.Lock) win {
	for {
		h, err := l.Acquire(ctx)
		if err == nil {
			return win{h, h.Ready(ctx)}
		}
		if errors.Is(err, lock.ErrFull) {
			err = l.Wait(ctx, time.Second)
		}
		if err != nil {
			return win{err: err}
		}
	}
}

// awaitQueued returns once the waiter is next and has the baton, or waits for the token that
// the holder has.
func awaitQueued(ctx context.Context, b *testing.B, id lock.ID) {
	b.Helper()
	for {
		all, err := shared.Queues(ctx, "/")
		if err != nil {
			b.Fatal(err)
		}
		for _, q := range all {
			line := q.Name == id.Name+"-W" || q.Name == id.Name+"-K"
			if line && q.Consumers == 1 && q.Unacked == 1 {
				return
			}
		}
		select {
		case <-ctx.Done():
			b.Fatal("nobody queues up: ", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}
