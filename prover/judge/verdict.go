// Package judge finds out which promises of a lock a history keeps. Each checker gives a verdict of its own.
package judge

import (
	"fmt"
	"slices"
	"time"

	"berth/prover/history"
)

// Outcome is what a checker has found.
type Outcome string

// The outcomes of a checker.
const (
	Kept     Outcome = "kept"
	Violated Outcome = "violated"
	Unknown  Outcome = "unknown" // the history does not tell
)

// Verdict is what one checker finds in a history.
type Verdict struct {
	Checker    string      `json:"checker"`
	Outcome    Outcome     `json:"outcome"`
	Violations []Violation `json:"violations,omitempty"`
	Limits     []Violation `json:"limits,omitempty"` // those that a fault allows: see history.Event
	Note       string      `json:"note,omitempty"`   // why it is unknown, or how often it was looked at
}

// Problems returns what verdicts blame, and what they cannot tell, for people.
func Problems(verdicts []Verdict) (all []string) {
	for _, v := range verdicts {
		if v.Outcome == Unknown {
			all = append(all, fmt.Sprintf("%s is unknown: %s", v.Checker, v.Note))
		}
		for _, violation := range v.Violations {
			all = append(all, violation.What)
		}
	}
	return all
}

// Violation is one moment at which a promise was broken.
type Violation struct {
	At    int64           `json:"at"` // as in history.Event
	Until int64           `json:"until,omitempty"`
	What  string          `json:"what"` // for people
	Lives []history.Event `json:"lives,omitempty"`
}

// split returns what the lock is blamed for, and what a fault allows.
func (m *matter) split(v Verdict) (violations, limits []Violation) {
	for _, one := range v.Violations {
		if m.allowed(v.Checker, one) {
			one.What = "limit: " + one.What
			limits = append(limits, one)
		} else {
			violations = append(violations, one)
		}
	}
	return violations, limits
}

func (m *matter) allowed(checker string, v Violation) bool {
	return slices.ContainsFunc(m.history, func(e history.Event) bool { return m.allows(e, checker, v) })
}

// allows reports whether a fault allows the violation. What strikes one client shows in its commands as soon as it goes
// on; what strikes all, such as a queue that is purged, when a slot changes hands.
func (m *matter) allows(f history.Event, checker string, v Violation) bool {
	if !slices.Contains(f.Allows, checker) {
		return false // before the whole history is looked through, for each event of it
	}
	after := int64(m.bounds.Progress)
	involved := func(e history.Event) bool { return e.Client == f.Target }
	if slices.ContainsFunc(m.history, involved) && f.Target != "" {
		after = int64(time.Second)
		if len(v.Lives) > 0 && !slices.ContainsFunc(v.Lives, involved) {
			return false
		}
	}
	ends := checker == "progress" || checker == "orphans" || v.Until <= max(v.At, f.Until)+after
	return f.At <= v.At && v.At <= f.Until+after && ends
}

// Windows is how often each fault has begun in each phase of a client or a command, all phases of all faults that struck
// or were to strike: a fault that has hit nothing proves nothing.
type Windows map[string]map[Phase]int

// Phase is what the target of a fault was doing.
type Phase string

// The phases of a client.
const (
	Waiting Phase = "waiting" // no command of it runs
	Young   Phase = "young"   // its command has run for less than a second
	Running Phase = "running"
	Other   Phase = "other" // the fault strikes no client, or one that has ended
)
