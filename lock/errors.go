package lock

import (
	"errors"
	"fmt"
)

// The outcomes that callers tell apart. Backends wrap them with what failed, on
// what, and what to do next.
var (
	// ErrFull: the lock exists and every slot is held.
	ErrFull = errors.New("all slots are held")

	// ErrAbsent: the lock has no slot, because it was never made or has been
	// removed.
	ErrAbsent = errors.New("the lock does not exist")

	// ErrLost: the slot is certainly not held any more.
	ErrLost = errors.New("slot lost")

	// ErrRemoved: the slot is lost because an administrator has removed it. It is an ErrLost as well.
	ErrRemoved = fmt.Errorf("slot removed: %w", ErrLost)

	// ErrDisconnected: the slot is lost because its connection ended before a command ran in it. It is an ErrLost as well.
	ErrDisconnected = fmt.Errorf("disconnected: %w", ErrLost)

	// ErrOver: the slot is lost, and somebody else's command runs in it already. It is an ErrLost as well.
	ErrOver = fmt.Errorf("slot taken over: %w", ErrLost)

	// ErrUnknown: the backend could not say. Neither free nor lost.
	ErrUnknown = errors.New("state unknown")

	// ErrInDoubt: what held the slot is damaged, its connection or its record
	// for example. The slot may still be held, and only Held.Reclaim can repair it
	// or prove the loss. It is an ErrUnknown as well.
	ErrInDoubt = fmt.Errorf("slot in doubt: %w", ErrUnknown)

	// ErrSilent: what would tell was reached, and does not do so in time. It is an ErrUnknown as well.
	ErrSilent = fmt.Errorf("no answer in time: %w", ErrUnknown)

	// ErrUnreachable: nothing that could answer was reached, or the connection
	// to it broke.
	ErrUnreachable = errors.New("unreachable")

	// ErrDenied: the login or a permission was refused.
	ErrDenied = errors.New("refused")

	// ErrUnsafe: what the backend offers does not fit the configured timings,
	// or cannot carry the lock.
	ErrUnsafe = errors.New("unsafe configuration")

	// ErrBusy: another administrator is changing the same lock.
	ErrBusy = errors.New("another administrator is changing this lock")
)

// Errorf returns an error that is one of the above, kind, for errors.Is, and
// whose text is only what the format makes: a sentence that says what to do
// next does not end in the name of its kind. The format may use %w.
func Errorf(kind error, format string, args ...any) error {
	return &outcome{kind: kind, err: fmt.Errorf(format, args...)}
}

// Full returns the ErrFull of a lock.
func (id ID) Full() error {
	if id.Kind == Mutex || id.Kind == PersistentMutex {
		return Errorf(ErrFull, "%s is held by another berth", id)
	}
	return Errorf(ErrFull, "all slots of %s are held", id)
}

// Absent returns the ErrAbsent of a lock, which says how to create it; see
// CreateCommand.
func (id ID) Absent(flags ...string) error {
	if id.Kind == PersistentMutex {
		return Errorf(ErrAbsent, "%s is disabled; enable it with: %s", id, id.CreateCommand(flags...))
	}
	return Errorf(ErrAbsent, "%s does not exist; create it with: %s", id, id.CreateCommand(flags...))
}

type outcome struct {
	kind error
	err  error
}

func (o *outcome) Error() string   { return o.err.Error() }
func (o *outcome) Unwrap() []error { return []error{o.kind, o.err} }
