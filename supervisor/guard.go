package supervisor

import (
	"os"
	"syscall"
	"time"

	"berth/internal/boottime"
)

// Guard is the helper process that is the parent of one command, as the
// supervisor sees it. One Guard runs at most one command and is then used up.
// Its methods return at once and are called by one goroutine; an error means
// that the guard is gone, which Events tells as well.
type Guard interface {
	// Bequeath has a guard that waits for Start execute the will (see
	// lock.Handover) when the supervisor is gone; nil takes it back. The will in
	// Start replaces it.
	Bequeath(will []byte) error

	// Start has the command started.
	Start(start Start) error

	// Renew moves the deadline at which the guard kills the tree unless it is
	// renewed again.
	Renew(deadline boottime.Instant) error

	// Signal sends the signal to part of the command. CONT to the Group also
	// gives the command the terminal again if berth has it for itself alone.
	Signal(sig syscall.Signal, to Scope) error

	// Freeze stops the whole tree until Thaw, which continues what Freeze has
	// stopped and leaves alone what was stopped before. A signal that is sent
	// in between takes effect at the thaw; KILL, and a deadline that passes,
	// at once.
	Freeze() error

	// Thaw ends Freeze. It does nothing if the tree is not frozen.
	Thaw() error

	// Kill kills the whole tree, again and again until nothing is left. Killing
	// is told for each Kill, and every KillingInterval after it.
	Kill() error

	// Abandon kills the guard process itself, for one that does not do what
	// it is told. What was below it falls to the supervisor's process and is
	// killed there; Dead is told as ever.
	Abandon()

	// Retire ends a guard whose command was never started, and waits for it.
	Retire()

	// Events tells what happens, in order. It is closed after Dead, or when
	// a guard that has not started anything is gone.
	Events() <-chan GuardEvent
}

// Start is what a guard is told when the slot is won.
type Start struct {
	Vars     []string         // NAME=value, added to the command's environment
	Files    []*os.File       // lock.Handover: kept open until the tree is dead
	Last     bool             // no other run follows in the slot: the guard unlocks Files before it tells Dead
	Deadline boottime.Instant // 0: none
	Will     []byte           // lock.Handover

	// Beside has a shared lock (flock(2)) while anything runs beside the command. The guard locks it for itself alone
	// before the will is executed, and for good: nothing begins to run there any more. nil: nothing does.
	Beside *os.File
}

// KillingInterval is how long a guard is silent at most while it kills a tree that
// does not end.
const KillingInterval = 2 * time.Second

// Scope is which part of a command a signal is for.
type Scope string

const (
	// First is the process that the guard started.
	First Scope = "first"
	// Group is the process group of that process.
	Group Scope = "group"
	// Tree is every process of the command.
	Tree Scope = "tree"
	// Head is the first process alone, for a signal that is to end the command. Whatever of the command is stopped
	// goes on after it, as with Tree: the first process may wait for it.
	Head Scope = "head"
	// Rest is every process of the command but the first.
	Rest Scope = "rest"
)

// GuardEventKind is what a GuardEvent tells.
type GuardEventKind string

const (
	// Accepted: the guard is about to start the command, which takes as long
	// as its program takes to be read.
	Accepted GuardEventKind = "accepted"
	// Unusable: the guard cannot work here, for the reason Err, and has ended.
	Unusable GuardEventKind = "unusable"
	// Started: the command runs; Pid is its first process, 0 if that has
	// ended before its number could be found out.
	Started GuardEventKind = "started"
	// NotStarted: the command could not be executed; Errno says why.
	NotStarted GuardEventKind = "not started"
	// Suspended: the command's first process was stopped from the terminal.
	Suspended GuardEventKind = "suspended"
	// HungUp: the terminal has gone, and the command had its foreground.
	HungUp GuardEventKind = "hung up"
	// Exited: the command's first process ended with Status; Left says
	// whether others of the tree are alive.
	Exited GuardEventKind = "exited"
	// Refused: the process Pid of the tree may not be signalled, because it
	// runs as another user. It is told once, and Dead not before its end.
	Refused GuardEventKind = "refused"
	// Killing: the guard has been told to kill, and has sent KILL to the whole
	// tree. What does not end of it, it goes on to kill, and says so again.
	Killing GuardEventKind = "killing"
	// Lasting: seconds after KILL the process Pid is still there, as About says. With
	// Left it lives. Otherwise it is dead, like all that is left of the tree, and whoever
	// traces it keeps it: Dead is told all the same. Either is told once by whoever kills the
	// tree: the guard, or after its death berth.
	Lasting GuardEventKind = "lasting"
	// Halted: the guard itself was stopped, by SIGSTOP for example, and has been
	// continued. It is told once.
	Halted GuardEventKind = "halted"
	// Loosened: the command's first process, Pid, runs as another user than it was
	// started as, and has lost its parent-death signal with that. It is told once.
	Loosened GuardEventKind = "loosened"
	// Overdue: the deadline passed, the guard is killing the tree.
	Overdue GuardEventKind = "overdue"
	// Dead: no process of the tree is left.
	Dead GuardEventKind = "dead"
)

// GuardEvent is something that happened to the command or its guard.
type GuardEvent struct {
	Kind   GuardEventKind
	Pid    int
	Errno  syscall.Errno
	Status syscall.WaitStatus
	Left   bool
	Err    error  // with Unusable
	About  string // with Lasting

	// Terminal, with Exited: the terminal was the command's; with Suspended: the
	// command waits for it.
	Terminal bool
	// Orphans, with Exited and Dead: the guard had died, its tree was killed without it.
	Orphans bool
}
