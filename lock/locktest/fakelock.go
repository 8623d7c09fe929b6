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

// fakeLock implements lock.Lock.
type fakeLock struct {
	fake *Fake
	id   lock.ID

	mu        sync.Mutex
	connected bool            // mu
	held      *fakeHeld       // mu; nil if none
	changed   <-chan struct{} // mu; closed when the lock has changed since the last Acquire began
}

func (l *fakeLock) current() *fakeHeld {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// do is Fake.do, which also ends the connection where the fault says so.
func (l *fakeLock) do(ctx context.Context, op Op, work func() error) error {
	err := l.fake.do(ctx, op, l.id, work)
	if errors.Is(err, lock.ErrUnreachable) {
		l.setConnected(false)
	}
	return err
}

func (l *fakeLock) setConnected(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected = yes
}

// needsConnection fails unless the contender is connected.
func (l *fakeLock) needsConnection() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.connected {
		return fmt.Errorf("%w; connect first", lock.ErrUnreachable)
	}
	return nil
}

func (l *fakeLock) Connect(ctx context.Context) error {
	return l.do(ctx, Connect, func() error {
		if err := checkID(l.id); err != nil {
			return err
		}
		l.setConnected(true)
		return nil
	})
}

func (l *fakeLock) Acquire(ctx context.Context) (lock.Held, error) {
	err := l.do(ctx, Acquire, func() error {
		if err := l.needsConnection(); err != nil {
			return err
		}
		var err error
		l.fake.place.look(l.id, func(s *state) { err = l.claim(s) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.current(), nil
}

// claim runs with the place locked.
func (l *fakeLock) claim(s *state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = s.changed
	if l.held != nil && s.holders[l.held.slot] == l {
		return nil // an Acquire that was made to fail has obtained it
	}
	size := s.size(l.id.Kind)
	if l.id.Kind == lock.PersistentMutex {
		size = min(size, 1) // also where a semaphore of its name has more
	}
	if size == 0 {
		return fmt.Errorf("%w; create it with: %s", lock.ErrAbsent, l.id.CreateCommand())
	}
	for slot := 1; slot <= size; slot++ {
		if s.holders[slot] == nil {
			s.holders[slot] = l
			l.held = &fakeHeld{lock: l, slot: slot, lost: make(chan struct{}), proven: boottime.Now()}
			return nil
		}
	}
	return lock.ErrFull
}

// Wait returns on a change, and also after pause: after an Acquire that was
// made to fail, no change may ever come.
func (l *fakeLock) Wait(ctx context.Context, pause time.Duration) error {
	return l.do(ctx, Wait, func() error {
		if err := l.needsConnection(); err != nil {
			return err
		}
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-changed:
			return nil
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (l *fakeLock) Handovers() <-chan lock.Handover { return l.fake.handovers }

func (l *fakeLock) Requests() <-chan lock.Request { return l.fake.requests }

// Alarm implements lock.Lock: there is none.
func (l *fakeLock) Alarm() string { return "" }

func (l *fakeLock) Close() error {
	l.setConnected(false)
	if h := l.current(); h != nil {
		h.free(time.Now().Add(h.Lease()))
	}
	return nil
}
