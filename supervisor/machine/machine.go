// Package machine decides what a supervisor does: which event leads from which
// state to which, why it all ends, and what follows.
//
//	row, found := machine.Next(state, machine.TreeDied, &facts)
//	// row.Do is what to do, row.To the next state, facts.Ending why and what then
//
// Two files decide everything: table.go (what an event does in a state) and ending.go
// (why berth, the command or the slot comes to its end, and what then).
// docs/states.md and states.tsv are generated from the table.
//
// It is pure: no I/O, no goroutine, no clock. It knows no lock beyond the errors of
// its contract, and nobody who carries out what it decides.
package machine

import (
	"errors"
	"syscall"
	"time"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/supervisor"
)

// Facts are what a decision depends on besides the state and the event. Their owner keeps
// them up to date; only Ending belongs to Next. The zero value is that of a supervisor
// that has just begun, but for Policy and HungUp.
type Facts struct {
	Policy Policy

	// HungUp reports whether the terminal that berth was started from has gone,
	// and berth was told so. Required.
	HungUp func() bool

	// Of the event.
	Err    error
	Signal syscall.Signal // ToldToEnd
	Guard  wire.Event     // Exited, TreeDied

	LastErr     error  // why there is no slot yet, nil: not known
	Takeover    string // TimedOut: what a takeover waits for, "" if nothing is taken over
	Admitted    bool   // the backend has let us in and answered an attempt
	Use         Use    // of the slot that is held
	Last        bool   // the guard of the command gives the slot back: nothing else can run there when its tree is dead
	Doubted     bool   // since the last proof something spoke against the slot
	Command     Command
	HasGuard    bool // one waits for the next start of the command
	Guarded     bool // a guard could begin to start the command once
	GuardDeaths int  // guards in a row that died before they had started anything
	Lost        bool // the slot that is held, or was held last, is given up because it is lost
	Healthy     bool // a check has succeeded in the run of the command under way, or in the last one
	Unfit       bool // no slot is to be taken before a check has succeeded

	Ending Ending
}

// Policy is what the user wants, as far as decisions depend on it.
type Policy struct {
	ID      lock.ID // for messages
	Try     bool
	Timeout time.Duration // for messages
	OnLoss  supervisor.OnLoss
	Restart supervisor.Restart
	MaxRun  time.Duration // for messages
	Freeze  bool          // a command whose slot is in doubt

	OnAcquire, OnRelease, OnLost bool // there is such a hook
}

// Restarts reports whether the command can be started again in the slot in which it has run.
func (p Policy) Restarts() bool {
	return p.Restart == supervisor.Always || p.Restart == supervisor.OnFailure
}

// Use is what a slot has been used for.
type Use int

// The uses, in ascending order.
const (
	Unused  Use = iota // the command was not to be started in it
	Ordered            // it was, and did not get so far; on_acquire had no objection
	HasRun             // it was started once at least
)

// Command is what was started in one start: the command, or a hook.
type Command struct {
	Hook       supervisor.Hook // "": it is the command
	Phase      Phase
	Status     syscall.WaitStatus // Over: of its first process
	ByItself   bool               // Over: nothing was to end it
	AtTerminal bool               // Over: the user ended it there
	Err        error              // NotExecuted: why
	Overtime   bool               // it is a hook, and was killed because it took too long
}

// Phase is how far a command has got.
type Phase int

// The phases, in ascending order.
const (
	Absent      Phase = iota // there is none
	Beginning                // the guard was told to start it
	Accepted                 // the guard starts it: from here on it may run
	NotExecuted              // it could not be started; the guard is about to end
	Alive                    // its first process runs
	Over                     // its first process has ended; others of the tree may live
)

// Started reports whether the command was seen to run.
func (c Command) Started() bool { return c.Phase >= Alive }

// Condition is on what a row of the table depends. The zero value always holds.
type Condition struct {
	Text string // for the page that is generated
	test func(Facts) bool
}

func (c Condition) holds(f Facts) bool { return c.test == nil || c.test(f) }

// The conditions. What follows an ending was decided in ending.go.
var (
	always Condition

	thenEnd       = Condition{"berth ends", func(f Facts) bool { return f.Ending.Then == End }}
	thenStart     = Condition{"it starts again", func(f Facts) bool { return f.Ending.Then == StartAgain }}
	thenNextGuard = Condition{"another guard is to start it", func(f Facts) bool { return f.Ending.Then == NextGuard }}

	// The hooks. One for a slot's end is for every slot in which the command was to be started.
	enters   = Condition{"there is on_acquire", func(f Facts) bool { return f.Policy.OnAcquire && f.Use == Unused }}
	admitted = Condition{"on_acquire succeeded", func(f Facts) bool { return f.Ending.Then == Proceed }}
	refused  = Condition{"on_acquire failed", func(f Facts) bool { return f.Ending.Reason == Refused }}
	leaves   = Condition{"there is on_release", func(f Facts) bool {
		return f.Policy.OnRelease && f.Use != Unused && !f.Last
	}}
	reports = Condition{"lost in use, and there is on_lost", func(f Facts) bool {
		return f.Policy.OnLost && f.Lost && f.Use != Unused
	}}

	givenUp = Condition{"the slot is given up", func(f Facts) bool {
		return f.Ending.Then == End || f.Ending.Then == Queue
	}}

	// Without proof the slot may still be ours: a connection that is gone can be
	// made again.
	lossProven = Condition{"proof of the loss", func(f Facts) bool { return errors.Is(f.Err, lock.ErrLost) }}

	unfit = Condition{"no check has succeeded that has to", func(f Facts) bool { return f.Unfit }}

	doubted       = Condition{"the slot is in doubt", func(f Facts) bool { return f.Doubted }}
	doubtedFreeze = Condition{"the slot is in doubt, with --in-doubt freeze", func(f Facts) bool {
		return f.Doubted && f.Policy.Freeze
	}}
	freeze = Condition{"with --in-doubt freeze", func(f Facts) bool { return f.Policy.Freeze }}

	noGuard = Condition{"there is no guard", func(f Facts) bool { return !f.HasGuard }}
	guarded = Condition{"one could be used before", func(f Facts) bool { return f.Guarded }}

	mayStartAgain = Condition{"the command might start again", Facts.mayStartAgain}

	unreachable = Condition{"unreachable", func(f Facts) bool { return errors.Is(f.Err, lock.ErrUnreachable) }}
	nothingLeft = Condition{"nothing of it is left", func(f Facts) bool { return !f.Guard.Left }}
)

// Next decides what an event does in a state. It sets facts.Ending, and returns the
// row of the table that holds; there is none for an event that has no meaning there,
// which is a mistake in this package.
func Next(state supervisor.State, on Event, facts *Facts) (row Row, found bool) {
	after := *facts
	after.Ending = why(state, on, after)
	for _, row := range table[state] {
		if row.On == on && row.If.holds(after) {
			facts.Ending = after.Ending
			return row, true
		}
	}
	return Row{}, false
}
