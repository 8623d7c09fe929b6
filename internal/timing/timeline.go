package timing

import (
	"cmp"
	"slices"
	"time"

	"berth/signals"
)

// Event is a point of a Timeline. The texts are stable: scripts read them.
type Event string

// The events of a Timeline.
const (
	LastVerified Event = "last-verification-begins" // the last one that succeeds
	NextBegins   Event = "next-verification-begins"
	TimesOut     Event = "verification-times-out"
	LossStep     Event = "loss-step"   // a signal of the loss sequence
	Deadline     Event = "deadline"    // the guard kills what is left
	LeaseEnds    Event = "lease-ends"  // the broker may free the slot from here on
	NextHolder   Event = "next-holder" // earliest start of another holder's command
)

// Moment is one point of a Timeline.
type Moment struct {
	// At counts from the beginning of the last verification that succeeds.
	At time.Duration

	Event Event

	// Signal is what a LossStep sends, such as "TERM"; empty for other events.
	Signal string

	// Late says that it comes after what it must come before: the deadline.
	Late bool
}

// Handover returns how long a successor waits after it has won a slot whose
// last holder has not been heard of.
func (t Timings) Handover() time.Duration { return t.Lease() }

// Deadline returns when the command's tree has to be dead, counted from the
// beginning of the last verification that succeeded.
func (t Timings) Deadline() time.Duration { return t.Lease() - Margin }

// Noticed returns how long the one that is next takes at most to see that a holder's
// connection is gone: it looks four times a lease, and once more half a second later.
// With the plain protocol, where nobody is next, it is twice the pause between looks, which is a random one.
func (t Timings) Noticed() time.Duration {
	if t.Plain {
		return time.Second
	}
	return t.Lease()/4 + 500*time.Millisecond
}

// Freed returns for how long a broker keeps the slot of a holder that it does
// not hear any more: it looks at the connection once per heartbeat and gives it
// up after two looks without a byte, so between two and three heartbeats later.
func (t Timings) Freed() (least, most time.Duration) { return 2 * t.Heartbeat, 3 * t.Heartbeat }

// Failover returns how long it takes at most until the command of the next holder starts when the host of this one dies
// or is cut off in silence.
func (t Timings) Failover(hooks Hooks) time.Duration {
	_, freed := t.Freed()
	return sum(freed, t.Noticed(), t.Handover(), hooks.OnAcquire)
}

// Needed returns what has to fit into the lease: an interval, a timeout, the
// loss sequence and the margin.
func (t Timings) Needed() time.Duration {
	return sum(t.VerifyInterval, t.VerifyTimeout, t.Loss, Margin)
}

// Timeline returns what happens, in order of time, when the broker falls silent
// right after a verification. The loss sequence begins as late as it may, and
// not before the next verification has timed out: with unsafe timings that is
// too late, and what comes too late is marked. t.Loss is the duration of the sequence.
func Timeline(t Timings, loss signals.Sequence) []Moment {
	timesOut := sum(t.VerifyInterval, t.VerifyTimeout)
	line := []Moment{
		{At: 0, Event: LastVerified},
		{At: t.VerifyInterval, Event: NextBegins},
		{At: timesOut, Event: TimesOut},
	}
	at := max(timesOut, t.Deadline()-t.Loss)
	for _, step := range loss {
		line = append(line, Moment{At: at, Event: LossStep, Signal: signals.Name(step.Signal)})
		at = sum(at, step.Wait)
	}
	for i := range line {
		line[i].Late = line[i].At > t.Deadline()
	}
	line = append(line,
		Moment{At: t.Deadline(), Event: Deadline},
		Moment{At: t.Lease(), Event: LeaseEnds},
		Moment{At: t.Lease() + t.Handover(), Event: NextHolder})
	slices.SortStableFunc(line, func(a, b Moment) int { return cmp.Compare(a.At, b.At) })
	return line
}
