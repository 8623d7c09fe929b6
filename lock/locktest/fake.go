// Package locktest has a fake of package lock's backends, for tests of what uses one:
// locks in memory that fail where a test wants them to. It keeps the contract as
// package conformance tests it, and knows no backend.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/lock"
)

// Fake is a Backend in memory, for tests of what uses a backend. It passes the
// conformance suite, and can be told to fail:
//
//	place := locktest.NewPlace()
//	fake := place.Open(10 * time.Second)
//	fake.Inject(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
//
// Its methods may be called from several goroutines.
type Fake struct {
	place     *Place
	lease     time.Duration
	handovers chan lock.Handover

	requests chan lock.Request

	mu     sync.Mutex
	faults map[Op]*plan // mu
	locks  []*fakeLock  // mu
}

// Op is an operation that can be made to fail.
type Op string

// The operations, by the method that they are.
const (
	Connect     Op = "Connect"
	Acquire     Op = "Acquire"
	Wait        Op = "Wait"
	Ready       Op = "Ready"
	Verify      Op = "Verify"
	Reclaim     Op = "Reclaim"
	Release     Op = "Release"
	Slots       Op = "Slots"
	Resize      Op = "Resize"
	AwaitVacant Op = "AwaitVacant"
	Look        Op = "Look"
	Ask         Op = "Ask"
)

// Fault is what happens to one call. The zero value is a call that works.
// ErrUnreachable, before or after, also ends the contender's connection:
// Acquire and Wait fail until Connect has worked, and slots stay held.
type Fault struct {
	// Block keeps the call from doing anything until the channel is closed. If
	// the call's context ends first, the call returns its error and has done
	// nothing. Nil does not block.
	Block <-chan struct{}

	// Before, if not nil, is what the call returns, and it does nothing. A slot
	// whose Release does nothing stays held until the contender's Close.
	Before error

	// BlockAfter is as Block, when the call has done what it was asked to: if
	// the context ends first, its error is returned although all was done.
	BlockAfter <-chan struct{}

	// After, if not nil, is what the call returns instead of success, although
	// it has done what it was asked to. A contender whose Acquire obtained a
	// slot this way is given that slot by its next Acquire.
	After error
}

// plan is what happens to the calls of one operation.
type plan struct {
	next   []Fault
	always Fault
	calls  int
}

func (f *Fake) plan(op Op) *plan {
	p := f.faults[op]
	if p == nil {
		p = &plan{}
		f.faults[op] = p
	}
	return p
}

// Inject adds faults for the next calls of op, one each.
func (f *Fake) Inject(op Op, faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.plan(op)
	p.next = append(p.next, faults...)
}

// InjectAlways sets the fault of every call of op for which Inject has left
// none, until it is set again. The zero Fault ends it.
func (f *Fake) InjectAlways(op Op, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan(op).always = fault
}

// Calls returns how many calls of op have begun.
func (f *Fake) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan(op).calls
}

// ReportLost closes Lost of everything that this fake's contenders for id hold,
// with cause, which wraps ErrLost or ErrInDoubt. The slots themselves stay held;
// see Place.Take.
func (f *Fake) ReportLost(id lock.ID, cause error) {
	f.mu.Lock()
	locks := append([]*fakeLock(nil), f.locks...)
	f.mu.Unlock()
	for _, l := range locks {
		if h := l.current(); h != nil && l.id == id {
			h.lose(cause)
		}
	}
}

// begin returns the fault of the call of op that begins now.
func (f *Fake) begin(op Op) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.plan(op)
	p.calls++
	if len(p.next) == 0 {
		return p.always
	}
	fault := p.next[0]
	p.next = p.next[1:]
	return fault
}

// do runs work as one call of op, with the fault that is due.
func (f *Fake) do(ctx context.Context, op Op, id lock.ID, work func() error) error {
	fault := f.begin(op)
	err := blocked(ctx, fault.Block)
	if err == nil {
		err = fault.Before
	}
	if err == nil && op != Release { // a release is done whatever the context says
		err = ctx.Err()
	}
	if err == nil {
		err = work()
	}
	if err == nil {
		err = blocked(ctx, fault.BlockAfter)
	}
	if err == nil {
		err = fault.After
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", op, id, err)
	}
	return nil
}

func blocked(ctx context.Context, until <-chan struct{}) error {
	if until == nil {
		return nil
	}
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lock implements lock.Backend.
func (f *Fake) Lock(id lock.ID) lock.Lock {
	l := &fakeLock{fake: f, id: id}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks = append(f.locks, l)
	return l
}

// Administrator implements lock.Backend.
func (f *Fake) Administrator(id lock.ID) lock.Administrator {
	return &fakeAdministrator{fake: f, id: id}
}

// SetAdmins implements lock.Backend: everybody may ask.
func (f *Fake) SetAdmins([]string) {}

// Ask has a contender of this fake receive a request, and returns when it has.
func (f *Fake) Ask(r lock.Request) { f.requests <- r }

// Inspector implements lock.Backend.
func (f *Fake) Inspector(id lock.ID) lock.Inspector { return &fakeInspector{fake: f, id: id} }

func checkID(id lock.ID) error {
	switch id.Kind {
	case lock.Mutex, lock.Semaphore, lock.PersistentMutex, lock.TokenSemaphore:
		return lock.CheckName(id.Name)
	}
	return errors.New("no such kind of lock")
}
