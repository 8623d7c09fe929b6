// Package measure has what every measurement needs: clocks, how busy the machine is,
// what processes use, and a relay that counts what is said to a broker.
//
// It knows the machine, a private RabbitMQ and the AMQP frame. It must not know
// berth, nor how a figure is reported.
package measure

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// Now is a moment on CLOCK_MONOTONIC, in nanoseconds: a clock that all processes of
// the machine share.
func Now() int64 { return read(unix.CLOCK_MONOTONIC) }

// AtWallClock returns when, as Now counts, it was that time of the day. A clock that
// was set in the meantime makes it wrong.
func AtWallClock(t time.Time) int64 { return Now() - read(unix.CLOCK_REALTIME) + t.UnixNano() }

func read(clock int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err) // every Linux that Go supports has the clock
	}
	return t.Nano()
}

// Milliseconds converts nanoseconds.
func Milliseconds[T ~int64](nanoseconds T) float64 { return float64(nanoseconds) / 1e6 }

// Sleep waits, and reports how ctx ended if it does so first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
