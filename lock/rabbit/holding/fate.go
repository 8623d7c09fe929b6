package holding

import (
	"errors"
	"sync"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// fate is whether a holding is lost or in doubt, and why. Its methods may be called
// from several goroutines.
type fate struct {
	ended chan struct{} // closed by end: nothing is a loss from then on

	mu    sync.Mutex
	lost  chan struct{} // closed together with setting cause; guarded by mu
	cause error         // guarded by mu
}

func newFate() *fate { return &fate{ended: make(chan struct{}), lost: make(chan struct{})} }

// Lost implements lock.Held.
func (f *fate) Lost() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// Cause implements lock.Held.
func (f *fate) Cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// note keeps why the slot is lost or in doubt. Proof takes the place of doubt.
// After end nothing is told any more.
func (f *fate) note(cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.cause == nil:
		f.cause = cause
		if !transport.IsClosed(f.ended) {
			close(f.lost)
		}
	case errors.Is(cause, lock.ErrLost) && !errors.Is(f.cause, lock.ErrLost):
		f.cause = cause
	}
	return f.cause
}

// renew ends the doubt.
func (f *fate) renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost, f.cause = make(chan struct{}), nil
}

// end makes everything that happens from now on no loss. It reports whether
// that was so before.
func (f *fate) end() (before bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if transport.IsClosed(f.ended) {
		return true
	}
	close(f.ended)
	return false
}
