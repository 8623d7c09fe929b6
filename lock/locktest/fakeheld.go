package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/internal/boottime"
	"berth/lock"
)

// fakeHeld implements lock.Held.
type fakeHeld struct {
	lock *fakeLock
	slot int
	lost chan struct{}

	proven boottime.Instant // when it was obtained

	mu    sync.Mutex
	term  uint64 // mu; 0 until Ready
	cause error  // mu; not nil once lost is closed
}

func (h *fakeHeld) Slot() int                { return h.slot }
func (h *fakeHeld) Proven() boottime.Instant { return h.proven }
func (h *fakeHeld) Lease() time.Duration     { return h.lock.fake.lease }
func (h *fakeHeld) Handover() lock.Handover  { return lock.Handover{} }

func (h *fakeHeld) Lost() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func (h *fakeHeld) Term() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

func (h *fakeHeld) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

func (h *fakeHeld) lose(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = cause
		close(h.lost)
	}
}

func (h *fakeHeld) Ready(ctx context.Context) error {
	return h.lock.do(ctx, Ready, func() error {
		if err := h.awaitLastHolder(ctx); err != nil {
			return err
		}
		return h.ifHeld(func(s *state) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.term == 0 {
				s.term++
				h.term = s.term
			}
		})
	})
}

// awaitLastHolder waits until the command of a holder that has vanished is dead.
func (h *fakeHeld) awaitLastHolder(ctx context.Context) error {
	var dead time.Time
	h.lock.fake.place.look(h.lock.id, func(s *state) { dead = s.dead[h.slot] })
	timer := time.NewTimer(time.Until(dead))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *fakeHeld) Verify(ctx context.Context) error {
	return h.lock.do(ctx, Verify, func() error {
		if err := h.Cause(); err != nil {
			return err
		}
		return h.ifHeld(func(*state) {})
	})
}

func (h *fakeHeld) Reclaim(ctx context.Context) error {
	return h.lock.do(ctx, Reclaim, func() error {
		if err := h.Cause(); errors.Is(err, lock.ErrLost) {
			return err
		}
		return h.ifHeld(func(*state) { h.endDoubt() })
	})
}

// endDoubt makes way for what is reported next.
func (h *fakeHeld) endDoubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != nil {
		h.cause, h.lost = nil, make(chan struct{})
	}
}

// ifHeld calls f, or returns ErrLost if the slot is not held any more.
func (h *fakeHeld) ifHeld(f func(*state)) (err error) {
	h.lock.fake.place.look(h.lock.id, func(s *state) {
		switch {
		case !h.isHolder(s):
			err = fmt.Errorf("slot %d was taken: %w", h.slot, lock.ErrLost)
		case h.lock.id.Kind.Administered() && !s.slots[h.slot]:
			err = fmt.Errorf("slot %d was removed: %w", h.slot, lock.ErrRemoved)
		default:
			f(s)
		}
	})
	return err
}

// isHolder runs with the place locked. The same contender may hold the slot
// again, which is not this holding.
func (h *fakeHeld) isHolder(s *state) bool {
	return s.holders[h.slot] == h.lock && h.lock.current() == h
}

func (h *fakeHeld) Release(ctx context.Context) error {
	return h.lock.do(ctx, Release, func() error { h.free(time.Now()); return nil })
}

// free gives the slot up. dead says when its command, if there was one, is dead.
func (h *fakeHeld) free(dead time.Time) {
	h.lock.fake.place.change(h.lock.id, func(s *state) {
		if !h.isHolder(s) {
			return
		}
		delete(s.holders, h.slot)
		if h.Term() != 0 {
			s.dead[h.slot] = dead
		}
		h.lock.mu.Lock()
		defer h.lock.mu.Unlock()
		h.lock.held = nil
	})
}
