// Package history is what a run of the prover writes down: which clients contended for which lock, what lived when, and which
// faults struck. A history is lines of JSON, one [Event] each, in any order:
//
//	{"kind":"lock","lock":"p17","slots":1}
//	{"kind":"client","client":"c1","at":0,"until":3040000000,"status":137}
//	{"kind":"life","client":"c1","run":"c1.1","pid":4711,"slot":1,"term":7,"at":52000000,"until":3051000000}
//	{"kind":"update","run":"c1.1","at":52000000,"until":3049000000,"read":17,"wrote":142}
//	{"kind":"fault","fault":"kill","target":"c1","at":3040000000,"until":3040000000}
//
// It knows nothing of any lock service: a history from elsewhere is judged as well.
package history

import (
	"cmp"
	"slices"
)

// Kind tells what an event is about.
type Kind string

// The kinds of events.
const (
	Lock     Kind = "lock"     // what is contended for; once
	Client   Kind = "client"   // one attempt to get the lock, from its start to its end; a name has one
	Life     Kind = "life"     // one process that ran under the lock, from its first to its last sign of life
	Fault    Kind = "fault"    // what was broken, from when to when
	Update   Kind = "update"   // one run has written to what the lock protects, once or several times in a row
	Leftover Kind = "leftover" // a process that lived on when its client had ended, or all was over
)

// The faults that checkers know by name. All others they know by their time and their target alone.
const (
	Kill = "kill" // its target need not end what it has started; without a target no client that was there need
	End  = "end"  // a campaign ends its clients, and nothing has to be taken any more; it proves nothing
)

// Event is one line of a history. Times are nanoseconds on CLOCK_BOOTTIME (clock_gettime(2)) since any moment that all
// events of the history share. What is not known is left out, and zero.
type Event struct {
	Kind   Kind   `json:"kind"`
	At     int64  `json:"at,omitempty"`
	Until  int64  `json:"until,omitempty"` // of a client that was still there at the end of the history: 0
	Client string `json:"client,omitempty"`

	// Of a lock. Faults are the names of those that were to strike.
	Lock   string   `json:"lock,omitempty"`
	Slots  int      `json:"slots,omitempty"`
	Faults []string `json:"faults,omitempty"`

	// Of a client that has ended: the exit status, 128 and more for a signal (POSIX sh). Of a life: the one with which the
	// command ends once it has worked until its end; 0: it does not tell, unless it has.
	Status int  `json:"status,omitempty"`
	Worked bool `json:"worked,omitempty"` // of a life: until its end, by itself

	// Of a life, and an update has its run. Processes of one command have one run, and no others have that. Slot and term are what the lock service
	// told the command, each from 1; 0: it tells none.
	Run  string `json:"run,omitempty"`
	PID  int    `json:"pid,omitempty"`
	Slot int    `json:"slot,omitempty"`
	Term uint64 `json:"term,omitempty"`

	// Of an update: of which number it began, when that was read (At), and which number was written last (Until), each one
	// more than the one before. Refused: the store took none of them.
	Read    uint64 `json:"read,omitempty"`
	Wrote   uint64 `json:"wrote,omitempty"`
	Refused bool   `json:"refused,omitempty"`

	// Of a fault: its name, and the client that it struck, or a node of the broker; "": all, or the broker. Failed tells
	// why a command failed that was to break something. Allows are checkers whose promises need not be kept. Lasts is how
	// long it was to be left alone: healing takes time as well.
	Fault  string   `json:"fault,omitempty"`
	Target string   `json:"target,omitempty"`
	Failed string   `json:"failed,omitempty"`
	Allows []string `json:"allows,omitempty"`
	Lasts  int64    `json:"lasts,omitempty"`
}

// History is all events of one run of the prover.
type History []Event

// Faults returns the faults that struck, in order: neither the end of the campaign, nor the kills of clients that do not end then.
func (h History) Faults() (struck []Event) {
	ending := func(kill Event) bool {
		return slices.ContainsFunc(h, func(e Event) bool {
			return e.Kind == Fault && e.Fault == End && e.At <= kill.At && kill.At <= e.Until
		})
	}
	for _, e := range h {
		if e.Kind == Fault && e.Fault != End && !(e.Fault == Kill && ending(e)) {
			struck = append(struck, e)
		}
	}
	slices.SortStableFunc(struck, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return struck
}
