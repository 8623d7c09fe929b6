// Package feed is what a berth says of itself to the process that serves it to others (package web): all of it, each
// time, as a line of JSON.
//
//	f := feed.New(feed.Config{Self: self, Lock: id, Arithmetic: arithmetic})
//	err := f.Serve("127.0.0.1:9420")               // starts the server
//	supervisor.Config{Observer: f, Tally: f, ...}  // and never waits for it
//	f.Close()
//
// The server is a process of its own: who asks it much, or finds a fault in it, does not reach the process that has to
// end a command in time. It has neither the broker's URL nor any other secret. This package knows supervisors and no
// HTTP; a server that is slow or gone keeps nobody. Nothing comes back from it but that somebody asks who holds the
// lock.
package feed

import (
	"math"
	"time"

	"berth/lock"
	"berth/supervisor"
)

// Snapshot is all that a berth says of itself. It is what /status answers.
type Snapshot struct {
	lock.Report

	Lock  string    `json:"lock"`  // its name
	Kind  lock.Kind `json:"kind"`  // of the lock
	At    time.Time `json:"at"`    // when all this was so
	Ready bool      `json:"ready"` // as --ready says

	CommandPID int       `json:"command_pid,omitempty"` // the command's first process
	Frozen     bool      `json:"frozen,omitempty"`      // the command is stopped until the slot is verified
	KillAt     time.Time `json:"kill_at,omitzero"`      // when the sequence under way comes to KILL
	Deadline   time.Time `json:"deadline,omitzero"`     // the command is dead by then, unless the slot is verified
	Alarm      string    `json:"alarm,omitempty"`       // of the broker, in one sentence

	LastLoss Loss `json:"last_loss,omitzero"`
	Look     Look `json:"look,omitzero"` // at the others, once somebody has asked for it

	// Heard is when the server has heard this.
	Heard time.Time `json:"-"`

	Arithmetic Arithmetic `json:"arithmetic"`
	Timeline   []Change   `json:"timeline"` // the last changes, the oldest first
	Counts     Counts     `json:"counts"`   // since berth was started
}

// Arithmetic are the numbers that the promise rests on, in seconds. Lease is 0 where a slot is not lost by time.
type Arithmetic struct {
	Lease         float64 `json:"lease"`
	Interval      float64 `json:"verify_interval"`
	VerifyTimeout float64 `json:"verify_timeout"`
	Loss          float64 `json:"loss"`
	Margin        float64 `json:"margin"`
	Handover      float64 `json:"handover"` // how long the next holder waits if this one is not heard of
}

// Change is a state that began.
type Change struct {
	At    time.Time `json:"at"`
	State string    `json:"state"`
	Slot  int       `json:"slot,omitempty"`
	Term  uint64    `json:"term,omitempty"`
	Why   string    `json:"why,omitempty"` // there is no slot, or the one held is in doubt
}

// Loss is a slot that was lost with a command in it.
type Loss struct {
	At    time.Time            `json:"at"`
	Slot  int                  `json:"slot"`
	Term  uint64               `json:"term,omitempty"`
	Cause supervisor.LossCause `json:"cause"`
	Why   string               `json:"why"` // in one sentence
}

// Counts are what is counted.
type Counts struct {
	Acquires int            `json:"acquires"` // slots won
	Starts   int            `json:"starts"`   // of the command
	Restarts int            `json:"restarts"` // those of them that were in the slot of the one before
	Losses   map[string]int `json:"losses"`   // by cause, see supervisor.LossCause
	Kills    map[string]int `json:"kills"`    // signals of stop and loss sequences
	Failures int            `json:"verification_failures"`
	Checks   map[string]int `json:"health_checks"` // by outcome, see supervisor.CheckOutcome
	Cuts     map[string]int `json:"cuts"`          // commands that were ended, by cause, see supervisor.CutCause

	Verification Histogram `json:"verification"` // how long one took, in seconds
	Start        Histogram `json:"start"`        // from winning a slot to the command's start, in seconds
	Waited       Histogram `json:"waited"`       // for a slot, in seconds
}

// Histogram counts durations. The last of Counts is for those above every bound.
type Histogram struct {
	Bounds []float64 `json:"bounds"`
	Counts []uint64  `json:"counts"`
	Sum    float64   `json:"sum"`
}

func newHistogram(bounds ...float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

func (h *Histogram) add(d time.Duration) {
	in := 0
	for in < len(h.Bounds) && d.Seconds() > h.Bounds[in] {
		in++
	}
	h.Counts[in]++
	h.Sum += math.Max(0, d.Seconds())
}
