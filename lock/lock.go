// Package lock is the contract between berth's supervisor and the places where a lock can live. A lock has numbered
// slots; holding one is the permission to run one command.
//
// A [Backend] is such a place, and a [Lock] is one contender there. The example has its life from end to end:
//
//   - [Lock.Connect] reaches the backend, and [Lock.Acquire] makes one attempt. If every slot is held, that returns
//     [ErrFull], and [Lock.Wait] blocks until another attempt is worthwhile.
//   - [Held.Ready] blocks until the command may start.
//   - [Held.Verify] proves on a timer that the slot is still ours, and [Held.Lost] tells what the backend learns by
//     itself. After [ErrInDoubt] it takes [Held.Reclaim] to repair what held the slot, or to prove the loss.
//   - [Held.Release] gives the slot back after the command's tree is dead.
//
// What a backend guarantees: at most one [Held] per slot is ready at a time. A Held is ready from the moment that
// [Held.Ready] returned nil, for as long as its holder verifies it: the holder has its command dead when [Held.Verify],
// [Held.Reclaim] or [Held.Cause] returns an [ErrLost], and within [Held.Lease] of the beginning of its last successful
// verification. Two Held of one slot can exist, while the newer one waits in Ready for the older one's end. What a
// backend does not guarantee: that a holder which was frozen for longer than its lease notices before it runs its next
// instruction. Against that there is only the term, [Held.Term].
//
// Every outcome that a backend cannot know is [ErrUnknown], never a guess: a slot whose state is unknown is neither
// free nor lost.
package lock

import (
	"bytes"
	"context"
	"os"
	"time"

	"berth/internal/boottime"
)

// ID names one lock: what it is, and what it is called. The zero value names
// nothing and is refused by every backend.
type ID struct {
	Kind Kind
	Name string // 1 to MaxName bytes of UTF-8, see CheckName
}

// String returns the form used in messages: the kind, a space, the quoted name.
func (id ID) String() string { return string(id.Kind) + " " + quote(id.Name) }

// Backend is one place where locks live: a broker, or a directory of this host.
// Its methods may be called from several goroutines.
type Backend interface {
	// Lock returns this process's contender for the lock. It does no I/O.
	Lock(id ID) Lock

	// Administrator returns the administration of the lock. It does no I/O.
	// Only kinds with Kind.Administered have one; for others every method
	// fails.
	Administrator(id ID) Administrator

	// Inspector returns what looks at the lock from outside. It does no I/O.
	Inspector(id ID) Inspector

	// SetAdmins replaces Contention.Admins, of contenders that there are as well.
	SetAdmins(users []string)
}

// Contention is how a process contends for locks. The zero value waits like any other, and is asked by its own user.
type Contention struct {
	Priority int      // among the waiters, 0 to MaxPriority, the higher the sooner
	Takeover bool     // it goes before all who wait until it has won a slot; after that its Priority counts
	Once     bool     // no attempt follows the first, which may take a question more to say what is in the way
	Admins   []string // the users whose requests it accepts: what it does, to step down, to reload; nil: its own
}

// Lock is one contender for one lock. Its methods are called one at a time, by
// one goroutine, except that Held values it returned are used beside it.
//
// Every method returns promptly, with an error that wraps ctx.Err(), when ctx
// ends; nothing it had obtained by then stays behind.
type Lock interface {
	// Connect makes the lock usable, or usable again after ErrUnreachable, and
	// does nothing if it is usable already. Errors: ErrUnreachable, ErrDenied,
	// ErrUnsafe.
	Connect(ctx context.Context) error

	// Acquire makes one attempt to obtain any slot of the lock. It returns
	// within a bounded time whatever the backend does. A slot that Acquire
	// returned is this process's until Release: that is proof as a Verify's
	// nil is, valid from the moment Acquire began.
	//
	// Errors: ErrFull if every slot is held, ErrAbsent if the lock has no slot
	// at all, ErrUnknown if neither could be established, ErrUnreachable,
	// ErrDenied, ErrUnsafe. Absent means certainly absent: a part of the backend
	// that is out of reach makes the outcome ErrUnknown. After ErrUnreachable, Connect comes before the next attempt.
	Acquire(ctx context.Context) (Held, error)

	// Wait blocks until another Acquire may end differently from the last one.
	// A backend that is told of changes returns when it is told of one since
	// the last Acquire began. It may wait for longer than pause: for as long as this
	// contender is the successor, see Handovers, and otherwise not for ever, because
	// what it is told can be lost: for two minutes at most in this repository. A backend that has to poll returns after
	// pause. Either may return early. Errors: ErrUnreachable.
	Wait(ctx context.Context, pause time.Duration) error

	// Handovers receives what the guard is to keep while this contender waits, whenever that
	// has changed: a contender that the backend has made the successor for a slot
	// can leave something behind when it dies. The newest counts; the zero value
	// takes it back. nil where a backend has nothing of that kind.
	Handovers() <-chan Handover

	// Requests receives what others ask of this contender while it holds a slot or is the successor for one. A request
	// that nobody receives is dropped; who asks sees that from the time. nil where a backend has none.
	Requests() <-chan Request

	// Alarm says in one sentence why the backend serves contenders badly now, "" if
	// that is not known. It may be called at any time.
	Alarm() string

	// Close gives up everything the contender has, including a slot that it
	// still holds, within a bounded time.
	Close() error
}

// Held is one slot that this process holds. Verify, Reclaim, Ready and Release
// are called one at a time; the other methods at any time.
type Held interface {
	// Slot returns the slot's number, 1 or more.
	Slot() int

	// Term returns the fencing token of this holding, or 0 where the backend
	// has none. It is known once Ready has returned nil.
	Term() uint64

	// Lease returns for how long after the start of a successful Verify or Reclaim nobody
	// else becomes ready in the slot, whatever happens, unless this holder's
	// release is known: by Release, by its will, or because it was given back on
	// request. The backend may let somebody else have the slot sooner, when a
	// connection is reset for example, but that one's Ready does not return before.
	// Zero means without end: the slot is kept until this process, and the guard that was
	// given Handover, is gone.
	Lease() time.Duration

	// Ready blocks until the command may start: until the previous holder's
	// tree is known to be dead, or has had the time to be, and this holding is
	// recorded. nil is proof, from a moment after that, that the slot is still
	// held. Called again for
	// another start in the same slot it returns at once. Errors: as Verify, and
	// ErrFull if the previous holder lives and wants the slot back.
	Ready(ctx context.Context) error

	// Proven returns when the proof began that Ready's nil was. It is valid then.
	Proven() boottime.Instant
	// Verify proves that the slot is still held, and changes nothing. nil is
	// proof, valid from the moment the call began. ErrLost is proof of the
	// opposite. After an error that wraps ErrInDoubt, Reclaim comes next; another
	// Verify would say the same, unless a Reclaim has failed. Everything else, ErrUnknown and the end of ctx among it,
	// proves nothing, and Verify may be called again.
	Verify(ctx context.Context) error

	// Reclaim does what it takes to prove that the slot is held again: it
	// connects again, claims the slot again, writes its record again. nil is proof,
	// valid from a moment after the call began, so that a lease which is counted
	// from the beginning of the call is safe; it ends the doubt. Errors: as
	// Verify. It may go on trying until ctx ends; the next call takes up where it
	// stopped. Where nothing is damaged it is a Verify.
	Reclaim(ctx context.Context) error

	// Lost is closed when the backend learned by itself that the slot is gone
	// or may be: Cause then says what happened. A Reclaim that succeeds
	// afterwards ends the doubt: Lost then returns another channel, for what
	// comes next. It is not closed by Release.
	Lost() <-chan struct{}

	// Cause says why Lost was closed, and is nil before that. It wraps ErrLost
	// where there is proof, and ErrInDoubt otherwise: the slot may still be ours,
	// and Reclaim comes next.
	Cause() error

	// Handover returns what the guard keeps beside the command.
	Handover() Handover

	// Release gives the slot back. The caller has made sure that the
	// command's tree is dead. It is called once, also after a loss. An error
	// means that the backend could not confirm it; the slot is then freed by
	// closing what held it, and that has been done.
	Release(ctx context.Context) error
}

// Handover is what a guard is given when the slot is won, so that it can stand
// in for a supervisor that has died. The zero value gives it nothing.
type Handover struct {
	// Files keep the slot held for as long as one process has them open and none has
	// unlocked them. The guard closes them after the tree is dead. If nothing else is to
	// run in the slot, it unlocks each (flock(2)), and truncates those that are open for
	// writing, which have nothing in them, as soon as the tree is dead: Release finds the
	// slot given back then, and Ready ErrLost if somebody else has it. The receiver
	// duplicates them; they stay the Held's to close.
	Files []*os.File

	// Will is what the guard executes, after the tree is dead, if the
	// supervisor cannot release the slot. It says that the command of one
	// holding is dead, so that it does no harm if it is executed late or twice.
	// It may contain secrets. NewWill makes it; nil: there is none.
	Will []byte

	// Slot is the slot that all this is for; 0: there is nothing yet.
	Slot int
}

// NewWill returns a will that the named backend's executor can execute, from data
// that only that backend understands. The guard runs in a process of its own, in
// which no backend is open: a program that starts guards has an executor for every
// backend that writes wills, by name.
func NewWill(backend string, data []byte) []byte {
	return append([]byte(backend+":"), data...)
}

// OpenWill returns the name of the backend that wrote a will, and its data.
func OpenWill(will []byte) (backend string, data []byte) {
	name, data, _ := bytes.Cut(will, []byte(":"))
	return string(name), data
}

// Administrator changes whether and in how many slots a lock exists. All
// administration of one lock, by anybody, happens one action at a time.
//
// Every method is idempotent: asked for the state that is there already, it
// succeeds and changes nothing. Errors of all: ErrUnreachable, ErrDenied,
// ErrUnknown, ErrBusy if another administrator did not finish before ctx ended,
// ErrUnsafe if something that is not berth's is in the way.
type Administrator interface {
	// Slots returns how many slots exist, 0 if the lock does not.
	Slots(ctx context.Context) (int, error)

	// Resize makes the lock have as many slots as target returns for the
	// number it is given, which is the present number: so "two more" is
	// computed under the administration mutex. It may be asked more than once;
	// the last answer counts. An error from target ends the action before
	// anything was changed, and is returned. Slots are added in
	// ascending and removed in descending order, and sweep slots beyond the
	// larger of both numbers, at least one, are removed too, for leftovers: a
	// leftover never becomes a slot again because its predecessor is made. It
	// returns the numbers before and after; on an error, as far as it got.
	Resize(ctx context.Context, sweep int, target func(present int) (int, error)) (before, after int, err error)

	// RemoveAscending is Resize to 0 slots, which target has to return, the lowest first: from the removal of slot 1
	// on no contender obtains a slot, while those of a higher number stay with their holders until it is their
	// turn. Where it is broken off, the others stay as leftovers, which a sweep of as many slots removes. A backend
	// that removes all slots at once does that.
	RemoveAscending(ctx context.Context, sweep int, target func(present int) (int, error)) (before, after int, err error)

	// AwaitVacant blocks until nobody holds a slot with a number in
	// from..to and what ran in them is dead, or has had the time to be. It
	// changes nothing. Over a broker it returns ErrBusy if one of them that did
	// not exist does again: it can be held again at any time.
	AwaitVacant(ctx context.Context, from, to int) error

	// Flags are what a command line about the same lock needs beside those that
	// the administrator was made with: what it has seen of the lock.
	Flags() []string

	// Close gives up everything the administrator has.
	Close() error
}
