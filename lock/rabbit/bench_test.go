package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// stopwatch keeps how long each run of what is measured took. What lies between
// the runs does not count, so the benchmarks here report it instead of ns/op.
type stopwatch []time.Duration

// run measures f and ends the benchmark if it fails.
func (s *stopwatch) run(b *testing.B, f func() error) {
	b.Helper()
	began := time.Now()
	err := f()
	*s = append(*s, time.Since(began))
	if err != nil {
		b.Fatal(err)
	}
}

func (s stopwatch) report(b *testing.B) {
	if len(s) == 0 {
		return
	}
	slices.Sort(s)
	b.ReportMetric(0, "ns/op") // is not printed
	b.ReportMetric(milliseconds(s[len(s)/2]), "ms-median")
	b.ReportMetric(milliseconds(s[len(s)-1]), "ms-max")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measured returns a context for one benchmark.
func measured(b *testing.B) context.Context {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	b.Cleanup(cancel)
	return ctx
}

// entered returns a connected contender on the shared broker.
func entered(ctx context.Context, b *testing.B, id lock.ID) lock.Lock {
	b.Helper()
	made, err := rabbit.New(at(shared.URL()))
	if err != nil {
		b.Fatal(err)
	}
	l := made.Lock(id)
	b.Cleanup(func() { l.Close() })
	if err := l.Connect(ctx); err != nil {
		b.Fatal(err)
	}
	return l
}

// seize acquires and waits until the command could start.
func seize(ctx context.Context, b *testing.B, l lock.Lock) lock.Held {
	b.Helper()
	h, err := l.Acquire(ctx)
	if err == nil {
		err = h.Ready(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func BenchmarkConnect(b *testing.B) {
	ctx := measured(b)
	made, err := rabbit.New(at(shared.URL()))
	if err != nil {
		b.Fatal(err)
	}
	id := fresh(lock.Mutex)
	var s stopwatch
	for b.Loop() {
		l := made.Lock(id)
		s.run(b, func() error { return l.Connect(ctx) })
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	s.report(b)
}

// From an attempt at a free mutex to its being free again, with nobody else
// there.
func BenchmarkUncontended(b *testing.B) {
	ctx := measured(b)
	l := entered(ctx, b, fresh(lock.Mutex))
	var s stopwatch
	for b.Loop() {
		s.run(b, func() error {
			h, err := l.Acquire(ctx)
			if err != nil {
				return err
			}
			if err := h.Ready(ctx); err != nil {
				return err
			}
			return h.Release(ctx)
		})
	}
	s.report(b)
}

func BenchmarkVerify(b *testing.B) {
	ctx := measured(b)
	h := seize(ctx, b, entered(ctx, b, fresh(lock.Mutex)))
	var s stopwatch
	for b.Loop() {
		s.run(b, func() error { return h.Verify(ctx) })
	}
	s.report(b)
}

// An attempt at a mutex that is held, which is what a waiter that looks does.
func BenchmarkLostRace(b *testing.B) {
	ctx := measured(b)
	id := fresh(lock.Mutex)
	seize(ctx, b, entered(ctx, b, id))
	l := entered(ctx, b, id)
	var s stopwatch
	for b.Loop() {
		s.run(b, func() error {
			if _, err := l.Acquire(ctx); !errors.Is(err, lock.ErrFull) {
				return fmt.Errorf("acquiring a held mutex: %w", errors.Join(errors.New("not refused as full"), err))
			}
			return nil
		})
	}
	s.report(b)
}
