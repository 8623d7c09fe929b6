package rabbit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// newAged returns two holders, the ledger of one of which is young, however slow
// this machine is.
func newAged(t *testing.T) (young, old lock.Held) {
	t.Helper()
	_, young = holder(t, shared, fresh(lock.Mutex))
	_, old = holder(t, shared, fresh(lock.Mutex))
	for _, h := range []lock.Held{young, old} {
		must(t, h.Ready(within(t))) // makes the ledger
	}
	rabbit.SetYoung(young, time.Hour)
	rabbit.SetYoung(old, 0)
	return young, old
}

// A broker that was killed can have forgotten a ledger that it had just
// confirmed: then its holder does not wait for it to come back.
func youngGivesUpAtOnce(t *testing.T, young, old lock.Held) {
	for _, h := range []lock.Held{young, old} {
		if err := lost(t, h); errors.Is(err, lock.ErrLost) {
			t.Errorf("a connection that is gone is no proof of a loss: %v", err)
		}
	}
	// The wait would end with within's context, in doubt.
	if err := proven(within(t), young); !errors.Is(err, lock.ErrLost) {
		t.Errorf("verifying with a young ledger: %v", err)
	}
	ctx, cancel := shortly()
	defer cancel()
	if err := proven(ctx, old); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("verifying with an old ledger: %v", err)
	}
}

// That a lock has no ledger proves nothing to one who may have come back to a
// broker that was killed.
func TestContenderThatComesBackWaitsThoughALockWasNeverUsed(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	cfg := at(shared.URL())
	cfg.Heartbeat = long
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
	cut(t, id)
	if err := l.Wait(within(t), time.Hour); !errors.Is(err, lock.ErrUnreachable) {
		t.Fatalf("waiting on a connection that was closed: %v", err)
	}
	succeeds(t, "connecting again", func() error { return l.Connect(within(t)) })
	h, err := l.Acquire(within(t))
	must(t, err)
	waits(t, h)

	_, other := claimed(t, fresh(lock.Mutex), long) // was never connected before
	must(t, other.Ready(within(t)))
}

// An error of the broker shows that it was alive then, and not that it was between two connections before, or for as long
// after it as a start takes.
func TestErrorOfTheBrokerExcusesNoOtherReturn(t *testing.T) {
	for name, pause := range map[string]time.Duration{"before": 0, "after": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := fresh(lock.Mutex)
			p := newTap(t)
			cfg := at(p.url())
			cfg.Heartbeat = long
			l := backend(t, cfg).Lock(id)
			t.Cleanup(func() { l.Close() })
			ends := []func(){func() { cut(t, id) }, func() { p.fail(t, 541) }}
			if pause > 0 {
				ends = ends[1:]
			}
			for _, end := range ends {
				succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
				end()
				if err := l.Wait(within(t), time.Hour); !errors.Is(err, lock.ErrUnreachable) {
					t.Fatalf("waiting on a connection that was closed: %v", err)
				}
			}
			time.Sleep(pause) // in which a broker could have been killed and started again
			succeeds(t, "connecting again", func() error { return l.Connect(within(t)) })
			h, err := l.Acquire(within(t))
			must(t, err)
			waits(t, h)
		})
	}
}

// RabbitMQ ends the connection of a berth that takes a B which is only just going, or publishes to it: it was not killed,
// and a lock that was never used is had at once.
func TestContenderThatComesBackAfterAnErrorOfTheBrokerDoesNotWait(t *testing.T) {
	for _, code := range []uint16{541, 506} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			comesBack(t, code)
		})
	}
}

func comesBack(t *testing.T, code uint16) {
	cfg := rabbit.Config{Heartbeat: long}
	for {
		p := newTap(t)
		cfg.URLs = []string{p.url()}
		l := backend(t, cfg).Lock(fresh(lock.Mutex))
		t.Cleanup(func() { l.Close() })
		succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
		failed := time.Now()
		p.fail(t, code)
		if err := l.Wait(within(t), time.Hour); !errors.Is(err, lock.ErrUnreachable) || !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Fatalf("waiting on a connection that the broker has ended: %v", err)
		}
		succeeds(t, "connecting again", func() error { return l.Connect(within(t)) })
		if time.Since(failed) > time.Second { // too late on a machine as busy as this
			continue
		}
		h, err := l.Acquire(within(t))
		must(t, err)
		must(t, h.Ready(within(t)))
		return
	}
}
