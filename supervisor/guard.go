package supervisor

import (
	"os"
	"syscall"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
)

// Guard is the helper process that is the parent of one command, as the
// supervisor sees it. One Guard runs at most one command and is then used up.
// Its methods return at once and are called by one goroutine; an error means
// that the guard is gone, which Events tells as well.
type Guard interface {
	// SetWill has a guard that waits for Start execute the will (see
	// lock.Handover) when the supervisor is gone; nil takes it back. The will in
	// Start replaces it.
	SetWill(will []byte) error

	// Start has the command started.
	Start(start Start) error

	// Renew moves the deadline at which the guard kills the tree unless it is
	// renewed again.
	Renew(deadline boottime.Instant) error

	// Signal sends the signal to part of the command. CONT to the Group also
	// gives the command the terminal again if berth has it for itself alone.
	Signal(sig syscall.Signal, to wire.Scope) error

	// Freeze stops the whole tree until Thaw, which continues what Freeze has
	// stopped and leaves alone what was stopped before. A signal that is sent
	// in between takes effect at the thaw; KILL, and a deadline that passes,
	// at once.
	Freeze() error

	// Thaw ends Freeze. It does nothing if the tree is not frozen.
	Thaw() error

	// Kill kills the whole tree, again and again until nothing is left. Killing
	// is told for each Kill, and every wire.KillingInterval after it.
	Kill() error

	// Abandon kills the guard process itself, for one that does not take what
	// it is told. What was below it falls to the supervisor's process and is
	// killed there; Dead is told as ever. One that takes it, and does not say
	// in time that it does it, is killed by itself, and Silent is told.
	Abandon()

	// Retire ends a guard whose command was never started, and waits for it.
	Retire()

	// Events tells what happens, in order. It is closed after Dead, or when
	// a guard that has not started anything is gone.
	Events() <-chan wire.Event
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
