package transport

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Pauses returns the pauses between attempts at what fails in passing: they double from first to longest, each with
// as much as half of it more or less, because a broker that comes back has everybody at it.
func Pauses(first, longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(first), backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0))
}

// RetryPauses are Pauses for what is back at once as a rule: a claim of a queue that is just going, a connection to a
// broker that is just starting.
func RetryPauses() *backoff.ExponentialBackOff {
	return Pauses(25*time.Millisecond, 500*time.Millisecond)
}

// Sleep pauses, or returns the error of ctx when it ends first.
func Sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
