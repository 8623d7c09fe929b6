package local

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"berth/internal/control"
	"berth/lock"
	"berth/lock/local/slotdir"
)

// contender implements lock.Lock.
type contender struct {
	id      lock.ID
	dir     slotdir.Dir
	backend *Backend
	asked   *control.Server

	waiter *slotdir.Waiter      // nil before Connect
	held   atomic.Pointer[held] // also read by the watcher's goroutine
	unsure bool                 // whether the last attempt ended in something that no event will tell the end of
}

// Connect makes the lock's directory, so that there is something to watch, and
// watches it.
func (c *contender) Connect(ctx context.Context) error {
	if err := checkID(c.id); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot use %s: %w", c.id, err)
	}
	if c.waiter != nil {
		if c.waiter.Watches(c.dir) {
			return nil
		}
		c.disconnect()
	}
	if err := c.prepare(); err != nil {
		return failure("cannot use "+c.id.String(), c.dir, err, lock.ErrUnreachable)
	}
	return nil
}

func (c *contender) prepare() error {
	slotdir.Boot() // ahead of the time when a slot is won
	if err := c.dir.Make(); err != nil {
		return err
	}
	w, err := c.dir.Await(c.backend.looks, c.matters)
	if err != nil {
		return err
	}
	c.waiter = w
	return nil
}

// matters runs on the watcher's goroutine for every change.
func (c *contender) matters(e slotdir.Event) bool {
	if !e.Vacates() {
		return false
	}
	if h := c.held.Load(); h != nil {
		h.look()
	}
	if c.backend.woken != nil {
		c.backend.woken(e.Name)
	}
	return true
}

// Acquire tries the slots from 1 upwards.
func (c *contender) Acquire(ctx context.Context) (lock.Held, error) {
	if c.waiter == nil || !c.waiter.Watches(c.dir) {
		return nil, failure("cannot obtain "+c.id.String(), c.dir, slotdir.ErrUnwatched, lock.ErrUnreachable)
	}
	if h := c.held.Load(); h != nil {
		return nil, fmt.Errorf("cannot obtain %s: this contender holds slot %d of it; release that first", c.id, h.slot)
	}
	c.waiter.Begin()
	h, err := c.search(ctx)
	c.unsure = err != nil && !errors.Is(err, lock.ErrFull) && !errors.Is(err, lock.ErrAbsent)
	if err != nil {
		return nil, err
	}
	c.asked.Holds(h.slot)
	c.asked.Begin()
	return h, nil
}

func (c *contender) search(ctx context.Context) (*held, error) {
	slots, err := slotsOf(c.id, c.dir)
	if err != nil {
		return nil, failure("cannot read the slots of "+c.id.String(), c.dir, err, lock.ErrUnknown)
	}
	present, doubt := 0, error(nil)
	for slot := 1; slot <= slots; slot++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cannot obtain %s: %w", c.id, err)
		}
		h, err := c.claim(slot)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, lock.ErrLost): // removed in this very moment
		case errors.Is(err, slotdir.ErrHeld):
			present++
		default:
			doubt = err
		}
	}
	switch {
	case doubt != nil:
		return nil, failure("cannot obtain "+c.id.String(), c.dir, doubt, lock.ErrUnknown)
	case present > 0 || c.id.Kind == lock.Mutex:
		return nil, c.id.Full()
	}
	return nil, c.id.Absent()
}

// slotsOf returns how many slots there are for a lock. A semaphore of the same name
// may have more than the one of a persistent mutex.
func slotsOf(id lock.ID, dir slotdir.Dir) (int, error) {
	if !id.Kind.Administered() {
		return 1, nil
	}
	n, err := dir.Slots()
	if id.Kind == lock.PersistentMutex {
		n = min(n, 1)
	}
	return n, err
}

// claim tries one slot, and verifies it: it may have been removed since it was
// listed.
func (c *contender) claim(slot int) (*held, error) {
	file, err := c.dir.Claim(slot)
	if err != nil {
		return nil, err
	}
	h := &held{contender: c, slot: slot, claim: file, lost: make(chan struct{})}
	// Before it is verified, so that a removal right after that is not missed.
	c.held.Store(h)
	if err := h.state(); err != nil {
		_ = h.free()
		return nil, err
	}
	return h, nil
}

// Wait sleeps in the kernel until the directory has changed.
func (c *contender) Wait(ctx context.Context, pause time.Duration) error {
	if c.waiter == nil {
		return failure("cannot wait for "+c.id.String(), c.dir, slotdir.ErrUnwatched, lock.ErrUnreachable)
	}
	c.asked.Begin()
	if c.unsure {
		pause = max(pause, time.Millisecond)
	} else {
		pause = slotdir.Never
	}
	if err := c.waiter.Wait(ctx, pause); err != nil {
		return failure("cannot wait for "+c.id.String(), c.dir, err, lock.ErrUnreachable)
	}
	return nil
}

// Handovers implements lock.Lock: who waits in the kernel leaves nothing behind.
func (c *contender) Handovers() <-chan lock.Handover { return nil }

// Requests implements lock.Lock.
func (c *contender) Requests() <-chan lock.Request { return c.asked.Requests() }

// Alarm implements lock.Lock: a directory has none.
func (c *contender) Alarm() string { return "" }

// Close frees a slot that is still held.
func (c *contender) Close() error {
	var err error
	if h := c.held.Load(); h != nil {
		err = h.free()
	}
	c.disconnect()
	return err
}

func (c *contender) disconnect() {
	c.asked.End()
	if c.waiter != nil {
		c.waiter.Close()
		c.waiter = nil
	}
}
