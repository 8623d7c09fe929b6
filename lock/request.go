package lock

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

// Verb is what a Request asks for. The strings go over the wire.
type Verb string

// The verbs.
const (
	// AskStatus: say who you are and what you do. The answer is a Report, as JSON.
	AskStatus Verb = "status"
	// AskStepDown: end the command cleanly, give the slot back, go to the end of the line. The answer is a
	// Decision, as JSON, given when the request is accepted or refused.
	AskStepDown Verb = "step-down"
	// AskReload: read the configuration again, for what can change while a slot is held. The answer is a Decision,
	// as JSON.
	AskReload Verb = "reload"
)

// Known reports whether it is one of these.
func (v Verb) Known() bool { return v == AskStatus || v == AskStepDown || v == AskReload }

// Request is what somebody asks of a contender that holds a slot, or is the successor for one. A backend passes on only
// those of who may ask.
type Request struct {
	Verb Verb
	From string // who asks, as the backend has found out: a user of the broker, or of this host

	// Reply answers; it is called once at most, and may take as long as ctx lets it. nil: no answer is wanted.
	Reply func(ctx context.Context, answer []byte) error
}

// Report is what a contender says of itself. The zero value of a field: it has none, or does not know.
type Report struct {
	Holder   string    `json:"holder"`             // host and process, as the command gets it in BERTH_HOLDER
	Host     string    `json:"host"`               // its name
	PID      int       `json:"pid"`                // of the supervisor
	Version  string    `json:"version"`            // of berth
	State    string    `json:"state"`              // see supervisor.State
	Slot     int       `json:"slot,omitempty"`     // that it holds
	Term     uint64    `json:"term,omitempty"`     // of that
	Since    time.Time `json:"since,omitzero"`     // when the slot was won, or the wait for one began
	Command  string    `json:"command,omitempty"`  // the first word of its command line
	Verified time.Time `json:"verified,omitzero"`  // when the last verification that succeeded began
	Trouble  string    `json:"trouble,omitempty"`  // in one sentence, why there is no slot, or the one held is in doubt
	Ending   bool      `json:"ending,omitempty"`   // the command is being ended
	Priority int       `json:"priority,omitempty"` // among the waiters
	Health   string    `json:"health,omitempty"`   // see supervisor.HealthState
}

// ReadReport reads the answer that somebody has given. What it says is up to them, and is made fit to be shown: what
// does something to a terminal becomes a question mark. Errors: ErrUnknown.
func ReadReport(answer []byte) (Report, error) {
	var r Report
	if json.Unmarshal(answer, &r) != nil {
		return Report{}, Errorf(ErrUnknown, "it has given an answer that cannot be read; it may be of another version")
	}
	for _, s := range []*string{&r.Holder, &r.Host, &r.Version, &r.State, &r.Command, &r.Trouble} {
		*s = printable(*s)
	}
	return r, nil
}

func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, text)
}

// Decision is the answer to a request that is accepted or refused.
type Decision struct {
	Accepted bool   `json:"heeded"`
	Why      string `json:"why,omitempty"` // it is not; or what of it is not
}

// ReadDecision is ReadReport for a decision.
func ReadDecision(who string, answer []byte) (Decision, error) {
	var d Decision
	if json.Unmarshal(answer, &d) != nil {
		return Decision{}, Errorf(ErrUnknown, "%s has given an answer that cannot be read; it may be of another version",
			who)
	}
	d.Why = printable(d.Why)
	return d, nil
}

// SlotState says whether somebody has a slot.
type SlotState string

// The states of a slot. The zero value means that nothing was found out.
const (
	SlotUnknown SlotState = "unknown"
	SlotFree    SlotState = "free"
	SlotHeld    SlotState = "held"
)

// SlotStatus is what is known of a slot from outside.
type SlotStatus struct {
	Slot         int       `json:"slot"`
	State        SlotState `json:"state"`
	Holder       *Report   `json:"holder,omitempty"`  // nil: there is none, or it does not answer
	Successor    *Report   `json:"next,omitempty"`    // the berth that starts next; nil: none, or no answer
	HasSuccessor bool      `json:"has_next"`          // whether the slot has a successor
	Problem      string    `json:"problem,omitempty"` // why something is not known, in one sentence
}

// Status is what is known of a lock from outside.
type Status struct {
	Slots   []SlotStatus `json:"slots"`   // in order; none: the lock does not exist
	Waiting int          `json:"waiting"` // how many are in line, the successors included; -1: not known
}

// Inspector looks at a lock from outside, and asks those who have its slots. Looking changes nothing. Its methods are
// called one at a time.
type Inspector interface {
	// Look returns what is known now. Who does not answer within a second or two is said not to. Errors:
	// ErrUnreachable, ErrDenied, ErrUnknown.
	Look(ctx context.Context) (Status, error)

	// Ask asks the holder of a slot, and returns its answer. Errors: ErrAbsent if nobody holds the slot, or its holder
	// can never be asked, ErrUnknown if no answer came before ctx ended, ErrUnreachable, ErrDenied.
	Ask(ctx context.Context, slot int, verb Verb) (answer []byte, err error)

	// Close gives up what it has.
	Close() error
}
