package lock

import "errors"

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

	// ErrUnknown: the backend could not say. Neither free nor lost.
	ErrUnknown = errors.New("state unknown")

	// ErrUnreachable: nothing that could answer was reached, or the connection
	// to it broke.
	ErrUnreachable = errors.New("unreachable")

	// ErrDenied: the login or a permission was refused.
	ErrDenied = errors.New("refused")

	// ErrUnsafe: what the backend offers does not fit the configured timings.
	ErrUnsafe = errors.New("unsafe configuration")

	// ErrBusy: another administrator is at work on the same lock.
	ErrBusy = errors.New("another administrator is at work on this lock")
)
