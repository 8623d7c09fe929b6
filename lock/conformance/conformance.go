// Package conformance is the suite that every backend of package lock passes:
//
//	conformance.Run(t, conformance.Harness{Open: ..., AddSlot: ...})
//
// It tests the contract as a user meets it, and knows no backend. It does not test
// what happens when a backend's own machinery breaks; that is each backend's own
// test.
package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"berth/lock"
)

// Harness makes the backends that the suite tests, all against one place.
type Harness struct {
	// Open returns a backend that shares nothing with those returned before
	// but the place: it plays another process, or another host. It registers
	// with t whatever has to be closed. Required.
	//
	// A backend with leases gives these one that is longer than Patience: a
	// successor that waits for the lease, although the slot was released cleanly, then
	// fails its test.
	Open func(t *testing.T) lock.Backend

	// OpenBrief is Open for the few tests in which a holder goes without a
	// release, and a successor waits for the end of its lease: a backend with
	// leases gives these its shortest. That it waits is tested. Nil means Open.
	OpenBrief func(t *testing.T) lock.Backend

	// AddSlot makes one slot exist behind the back of administration, as an
	// administrator that died half-way leaves one. Required.
	AddSlot func(t *testing.T, id lock.ID, slot int)

	// Kind is the one with several slots that the suite tests. Zero means
	// lock.Semaphore.
	Kind lock.Kind

	// Apart says that a semaphore and a persistent mutex of one name are two locks.
	Apart bool

	// Pause is what Wait is given. Zero means an hour, for a backend that is
	// told of changes: a wake that gets lost then fails the test. A backend
	// that polls sets a short one.
	Pause time.Duration

	// PauseAbsent is what Wait is given for a lock that does not exist, where
	// a backend has to poll for that only. Zero means Pause.
	PauseAbsent time.Duration

	// Patience is how long one test may take before it has failed. Zero means
	// a minute.
	Patience time.Duration
}

// Run runs the suite, one subtest per behaviour.
func Run(t *testing.T, h Harness) {
	if h.Pause == 0 {
		h.Pause = time.Hour
	}
	if h.PauseAbsent == 0 {
		h.PauseAbsent = h.Pause
	}
	if h.Patience == 0 {
		h.Patience = time.Minute
	}
	if h.Kind == "" {
		h.Kind = lock.Semaphore
	}
	for _, group := range [][]behaviour{exclusion, terms, waiting, removal, administration, ending} {
		for _, b := range group {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel() // it waits, most of the time
				ctx, cancel := context.WithTimeout(t.Context(), h.Patience)
				defer cancel()
				b.test(&env{T: t, h: h, ctx: ctx})
			})
		}
	}
}

type behaviour struct {
	name string
	test func(*env)
}

// env is what one test works with. Its methods end the test on failure and are
// called from the test's goroutine only.
type env struct {
	*testing.T
	h   Harness
	ctx context.Context
}

// fresh names a lock that nobody has used.
func (e *env) fresh(kind lock.Kind) lock.ID {
	return lock.ID{Kind: kind, Name: "conformance " + rand.Text()}
}

// sized makes a semaphore and sees to it that it is removed after the test.
func (e *env) sized(slots int) lock.ID {
	e.Helper()
	id := e.fresh(e.h.Kind)
	e.resize(id, slots)
	return id
}

// resize makes a lock have so many slots.
func (e *env) resize(id lock.ID, slots int) {
	e.Helper()
	a := e.administrator(id)
	_, after, err := a.Resize(e.ctx, 0, to(slots))
	if err != nil || after != slots {
		e.Fatalf("resizing %s to %d: now %d, %v", id, slots, after, err)
	}
	e.removeLater(id)
}

// removeLater removes a lock after the test.
func (e *env) removeLater(id lock.ID) {
	a := e.administrator(id)
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), e.h.Patience)
		defer cancel()
		if _, _, err := a.Resize(ctx, 10, to(0)); err != nil {
			e.Errorf("removing %s after the test: %v", id, err)
		}
	})
}

// to is the target of a Resize to a fixed number.
func to(slots int) func(int) (int, error) { return func(int) (int, error) { return slots, nil } }

func (e *env) administrator(id lock.ID) lock.Administrator {
	e.Helper()
	a := e.h.Open(e.T).Administrator(id)
	e.Cleanup(func() { _ = a.Close() })
	return a
}

// contender returns a connected contender in a process of its own.
func (e *env) contender(id lock.ID) lock.Lock {
	e.Helper()
	l := e.h.Open(e.T).Lock(id)
	e.Cleanup(func() { _ = l.Close() })
	if err := l.Connect(e.ctx); err != nil {
		e.Fatalf("connecting to %s: %v", id, err)
	}
	return l
}

// holder returns a contender that holds a slot.
func (e *env) holder(id lock.ID) (lock.Lock, lock.Held) {
	e.Helper()
	l := e.contender(id)
	return l, e.obtain(l)
}

// obtain waits until l has a slot.
func (e *env) obtain(l lock.Lock) lock.Held {
	e.Helper()
	held, err := e.h.obtain(e.ctx, l)
	if err != nil {
		e.Fatalf("obtaining a slot: %v", err)
	}
	return held
}

// obtainAgain is obtain after something was given up, which may have cut the connection.
func (e *env) obtainAgain(l lock.Lock) lock.Held {
	e.Helper()
	if err := l.Connect(e.ctx); err != nil {
		e.Fatalf("connecting: %v", err)
	}
	return e.obtain(l)
}

// obtain attempts and waits until l has a slot in which a command may start.
func (h Harness) obtain(ctx context.Context, l lock.Lock) (lock.Held, error) {
	for {
		held, err := l.Acquire(ctx)
		if err == nil {
			if err = held.Ready(ctx); err == nil {
				return held, nil
			}
			_ = held.Release(ctx)
		}
		if err := h.wait(ctx, l, err); err != nil {
			return nil, err
		}
	}
}

// wait waits as is due after an attempt that ended in err.
func (h Harness) wait(ctx context.Context, l lock.Lock, err error) error {
	switch {
	case errors.Is(err, lock.ErrFull):
		err = l.Wait(ctx, h.Pause)
	case errors.Is(err, lock.ErrAbsent):
		err = l.Wait(ctx, h.PauseAbsent)
	case errors.Is(err, lock.ErrUnknown):
		err = l.Wait(ctx, 10*time.Millisecond)
	}
	if errors.Is(err, lock.ErrUnreachable) || errors.Is(err, lock.ErrDisconnected) {
		return l.Connect(ctx) // as a supervisor does: a busy broker may not have answered in time
	}
	return err
}

// refused makes one attempt that has to end in want.
func (e *env) refused(l lock.Lock, want error) {
	e.Helper()
	held, err := l.Acquire(e.ctx)
	if err == nil {
		e.Fatalf("obtained slot %d, want the error %q", held.Slot(), want)
	}
	e.is(err, want)
}

// is ends the test unless err wraps want.
func (e *env) is(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("error is %v, want one that wraps %q", err, want)
	}
}

func (e *env) release(held lock.Held) {
	e.Helper()
	if err := held.Release(e.ctx); err != nil {
		e.Fatalf("releasing slot %d: %v", held.Slot(), err)
	}
}

func (e *env) verify(held lock.Held) {
	e.Helper()
	if err := held.Verify(e.ctx); err != nil {
		e.Fatalf("verifying slot %d: %v", held.Slot(), err)
	}
}

// later runs f beside the test and returns where its error will be.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// ended waits for what later began.
func (e *env) ended(what string, done <-chan error) error {
	e.Helper()
	select {
	case err := <-done:
		return err
	case <-e.ctx.Done():
		e.Fatalf("%s did not return", what)
		return nil
	}
}
