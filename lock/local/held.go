package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/local/slotdir"
)

// held implements lock.Held.
type held struct {
	contender *contender
	slot      int
	claim     *slotdir.Claim

	lost chan struct{}

	mu    sync.Mutex
	term  uint64 // 0 until Ready; mu
	cause error  // not nil once lost is closed; mu
	freed bool   // mu
}

// Slot returns the slot's number.
func (h *held) Slot() int { return h.slot }

// Term returns the number that Ready has decided on, 0 before that.
func (h *held) Term() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

// Lease returns 0: the slot is ours until its file is unlocked, or the last copy of it closed.
func (h *held) Lease() time.Duration { return 0 }

// Ready waits for nobody: the last holder has freed the slot, or its guard has unlocked
// or closed the file after its tree was dead. The first time it decides on the term.
// Before another start it makes sure that no guard has unlocked the slot.
func (h *held) Ready(ctx context.Context) error {
	if err := h.Verify(ctx); err != nil {
		return err
	}
	if h.Term() != 0 {
		return h.keep()
	}
	term, err := h.contender.dir.NextTerm(h.slot)
	if err != nil {
		what := fmt.Sprintf("cannot record the term of slot %d of %s", h.slot, h.contender.id)
		return failure(what, h.contender.dir, err, lock.ErrUnknown)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term = term
	return nil
}

func (h *held) keep() error {
	switch err := h.claim.Keep(); {
	case errors.Is(err, slotdir.ErrHeld):
		return lock.Errorf(lock.ErrLost, "slot %d of %s was given back by the guard, and another berth has it", h.slot,
			h.contender.id)
	case err != nil:
		return h.unknown(err)
	}
	return nil
}

// Proven returns the present moment: nothing is counted from it.
func (h *held) Proven() boottime.Instant { return boottime.Now() }

// Verify looks whether the slot still exists and its lock file still is ours.
func (h *held) Verify(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot verify slot %d of %s: %w", h.slot, h.contender.id, err)
	}
	if err := h.Cause(); err != nil {
		return err
	}
	return h.state()
}

// Reclaim is Verify: nothing that holds a slot of this host can be repaired.
func (h *held) Reclaim(ctx context.Context) error { return h.Verify(ctx) }

func (h *held) state() error {
	id, dir := h.contender.id, h.contender.dir
	if id.Kind.Administered() {
		if _, err := os.Lstat(dir.SlotPath(h.slot)); slotdir.Gone(err) {
			return lock.Errorf(lock.ErrRemoved, "slot %d of %s was removed", h.slot, id)
		} else if err != nil {
			return h.unknown(err)
		}
	}
	ours, err := h.claim.Current()
	switch {
	case slotdir.Gone(err), err == nil && !ours:
		return lock.Errorf(lock.ErrLost, "the lock file of slot %d of %s in %s was removed or replaced", h.slot, id,
			dir)
	case err != nil:
		return h.unknown(err)
	}
	return nil
}

func (h *held) unknown(err error) error {
	return fmt.Errorf("cannot verify slot %d of %s in %s: %w: %w",
		h.slot, h.contender.id, h.contender.dir, lock.ErrUnknown, err)
}

// look is called when something has changed that may be the end of the slot.
func (h *held) look() {
	err := h.state()
	if !errors.Is(err, lock.ErrLost) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil && !h.freed {
		h.cause = err
		close(h.lost)
	}
}

// Lost is closed when the slot or its lock file was seen to be removed.
func (h *held) Lost() <-chan struct{} { return h.lost }

// Cause says why Lost was closed.
func (h *held) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// Handover returns the files that keep the slot held.
func (h *held) Handover() lock.Handover {
	return lock.Handover{Files: h.claim.Files()}
}

// Release frees the slot, whichever process has a copy of its files, unless the guard has done so.
func (h *held) Release(context.Context) error {
	if err := h.free(); err != nil {
		return fmt.Errorf("cannot release slot %d of %s: %w: %w", h.slot, h.contender.id, lock.ErrUnknown, err)
	}
	return nil
}

func (h *held) free() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed {
		return nil
	}
	h.freed = true
	h.contender.asked.Holds(0)
	h.contender.held.CompareAndSwap(h, nil)
	return h.claim.Free()
}
