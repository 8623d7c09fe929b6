// Package timing is the arithmetic that the promise rests on: how long a slot is
// certainly kept, when a command has to be dead, and what happens when.
//
//	err := timings.Check()
//	for _, moment := range timing.Timeline(timings, loss) { ... }
//
// It computes with durations alone, and knows nothing of where they come from.
package timing

import (
	"fmt"
	"math"
	"time"

	"berth/lock"
)

const (
	// Margin is kept free between the end of the loss sequence and the end of
	// the lease. It covers what no timer promises: a KILL takes effect within
	// milliseconds, a loaded host starts a ready process some tens of
	// milliseconds late, and the rates of two hosts' clocks differ: quartz by less
	// than 12 ms in a lease of two minutes, and NTP slews them. It does not grow with
	// the lease: one that covers what chrony may do, 8.3 % on either side, would take
	// a sixth of it from every command whose broker is silent for a moment. And a
	// clock that nobody slews, CLOCK_MONOTONIC_RAW, stands still during a suspend.
	Margin = 500 * time.Millisecond

	// MinHeartbeat is the shortest heartbeat that AMQP 0-9-1 can express
	// (connection.tune counts seconds; 0 would switch it off).
	MinHeartbeat = time.Second

	// MinVerification is the least time from one verification to the next, and
	// for one: below the time that a broker nearby takes on a loaded host, berth
	// would do nothing else, or never have a proof in time.
	MinVerification = 10 * time.Millisecond

	// MaxHeartbeat keeps the lease, which is how long a slot stays locked
	// after its host has died, at two minutes. It is also the highest that
	// RabbitMQ grants unless it is told otherwise.
	MaxHeartbeat = 60 * time.Second
)

// Timings are the numbers that the promise rests on. All are above zero, except
// that Loss is zero for a sequence of KILL alone.
type Timings struct {
	Heartbeat      time.Duration // as negotiated, or as asked before that
	VerifyInterval time.Duration
	VerifyTimeout  time.Duration
	Loss           time.Duration // from the first signal of the loss sequence to its KILL
	Plain          bool          // the protocol is the plain one: nobody is next
}

// Hooks are how long the hooks may take, 0 for one that there is not. They are no part of what has to fit into the
// lease: one that runs in the slot is verified and has the command's deadline, and ends by the same loss sequence.
type Hooks struct {
	OnAcquire time.Duration // between the win of a slot and the start of the command
	OnRelease time.Duration // between the end of the command and the slot's return
	OnLost    time.Duration // after a loss, when the slot is given up
}

// Turnover returns how long a slot that is handed over cleanly may be without a command because of hooks.
func (h Hooks) Turnover() time.Duration { return sum(h.OnRelease, h.OnAcquire) }

// Ending returns how long berth may take to end cleanly, with a stop sequence that takes so long.
func (h Hooks) Ending(stop time.Duration) time.Duration { return sum(stop, h.OnRelease) }

// Lease returns how long the broker certainly keeps a slot after it last heard
// from its holder.
func (t Timings) Lease() time.Duration { return 2 * t.Heartbeat }

// Check returns an error that wraps lock.ErrUnsafe and says which number to
// change to what, if the command's tree might outlive the lease.
func (t Timings) Check() error {
	need := t.Needed()
	if need <= t.Lease() {
		return nil
	}
	return fmt.Errorf("%w: --verify-interval %s + --verify-timeout %s + --loss %s + margin %s = %s, "+
		"more than the lease of 2 x --heartbeat %s = %s; %s",
		lock.ErrUnsafe, t.VerifyInterval, t.VerifyTimeout, t.Loss, Margin, need, t.Heartbeat, t.Lease(), t.remedy(need))
}

// remedy proposes one change that makes the sum fit.
func (t Timings) remedy(need time.Duration) string {
	if heartbeat := (need/2 + time.Second - 1).Truncate(time.Second); heartbeat <= MaxHeartbeat {
		if 2*heartbeat < need { // need was odd in nanoseconds
			heartbeat += time.Second
		}
		return fmt.Sprintf("change --heartbeat to %s", heartbeat)
	}
	parts := []struct {
		flag string
		now  time.Duration
	}{{"--verify-interval", t.VerifyInterval}, {"--verify-timeout", t.VerifyTimeout}, {"--loss", t.Loss}}
	for _, part := range parts {
		if room := part.now - (need - t.Lease()); need < math.MaxInt64 && room > 0 {
			return fmt.Sprintf("change %s to %s at most", part.flag, room)
		}
	}
	return fmt.Sprintf("change --verify-interval, --verify-timeout and --loss so that they add up to %s at most",
		t.Lease()-Margin)
}

// sum adds durations that are not negative and stops at the highest, because a
// sum that overflows would look safe.
func sum(parts ...time.Duration) time.Duration {
	var all time.Duration
	for _, part := range parts {
		if part > math.MaxInt64-all {
			return math.MaxInt64
		}
		all += part
	}
	return all
}
