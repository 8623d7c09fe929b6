package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"

	"berth/lock"
	"berth/lock/rabbit/names"
)

// eitherType is a contender for a lock of whose queues nobody has said the type. It takes them for classic ones until it
// sees that the lock has quorum queues, and the other way around.
type eitherType struct {
	backend *Backend
	names   names.Names // of no type
	warn    func(on names.Names)

	mu    sync.Mutex // guards what follows: Handovers and Requests are read while Acquire runs
	on    lock.Lock
	other names.Names // of the type that on does not contend for
}

var _ lock.Lock = (*eitherType)(nil)

func newEitherType(b *Backend, n names.Names) *eitherType {
	return &eitherType{backend: b, names: n, warn: b.warnOnce(n.ID), on: b.calling(n), other: n.Of(QueuesQuorum)}
}

func (e *eitherType) now() lock.Lock {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on
}

// Connect implements lock.Lock.
func (e *eitherType) Connect(ctx context.Context) error { return e.now().Connect(ctx) }

// Acquire implements lock.Lock.
func (e *eitherType) Acquire(ctx context.Context) (lock.Held, error) {
	h, err := e.now().Acquire(ctx)
	if !errors.Is(err, names.ErrOtherType) {
		if err == nil || errors.Is(err, lock.ErrFull) {
			e.warn(e.other.Other())
		}
		return h, err
	}
	if err := e.swap(ctx); err != nil {
		return nil, err
	}
	if h, err = e.now().Acquire(ctx); errors.Is(err, names.ErrOtherType) { // it was made again meanwhile
		return nil, lock.Errorf(lock.ErrUnknown, "%s", err.Error())
	}
	return h, err
}

// swap contends for the lock with the other type from now on.
func (e *eitherType) swap(ctx context.Context) error {
	last := e.now()
	e.mu.Lock()
	if e.other.Replicated() {
		e.on, e.other = e.backend.handedOut(e.other, true), e.names
	} else {
		e.on, e.other = e.backend.calling(e.names), e.names.Of(QueuesQuorum)
	}
	e.mu.Unlock()
	_ = last.Close() // which holds nothing
	return e.now().Connect(ctx)
}

// Wait implements lock.Lock.
func (e *eitherType) Wait(ctx context.Context, pause time.Duration) error {
	return e.now().Wait(ctx, pause)
}

// Handovers implements lock.Lock.
func (e *eitherType) Handovers() <-chan lock.Handover { return e.now().Handovers() }

// Requests implements lock.Lock.
func (e *eitherType) Requests() <-chan lock.Request { return e.now().Requests() }

// Close implements lock.Lock.
func (e *eitherType) Close() error { return e.now().Close() }

// Alarm implements lock.Lock.
func (e *eitherType) Alarm() string { return e.now().Alarm() }
