package rabbit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// A lock that others hold looks to a user without the permission as it does to others. It would wait for ever.
func TestMissingPermissionIsToldWhileOthersHoldTheLock(t *testing.T) {
	must(t, shared.AddUser(within(t), "limited", "right"))
	must(t, shared.SetPermissions(within(t), "limited", "/", "", ".*", ".*"))
	type made struct {
		id     lock.ID
		queues rabbit.QueueType
		says   string
	}
	all := []made{}
	for _, kind := range lock.Kinds {
		all = append(all, made{fresh(kind), rabbit.QueuesClassic, "-1-B"})
	}
	all = append(all, made{fresh(lock.TokenSemaphore), rabbit.QueuesQuorum, "-Q"})
	for _, m := range all {
		says := m.id.Name + m.says
		if m.id.Kind.Administered() {
			_, err := makeTyped(t, m.id, m.queues, 1)
			must(t, err)
			defer resize(t, shared, m.id, 0)
		}
		if m.id.Kind == lock.TokenSemaphore && m.queues == rabbit.QueuesClassic {
			says = m.id.Name + "-K"
		}
		_, h := holder(t, shared, m.id)
		l := backend(t, at(shared.URLFor("limited", "right", "/"))).Lock(m.id)
		must(t, l.Connect(within(t)))
		if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrDenied) {
			t.Errorf("%s on %s queues: %v", m.id, m.queues, err)
		} else {
			readable(t, err, `"`+says+`"`, "configure permission")
		}
		must(t, l.Close())
		must(t, h.Release(within(t)))
	}
}

// The same of the plain protocol, where who waits for a slot that is held looks whether it is there and claims nothing.
func TestMissingPermissionIsToldOnThePlainProtocol(t *testing.T) {
	must(t, shared.AddUser(within(t), "limited", "right"))
	must(t, shared.SetPermissions(within(t), "limited", "/", "-T$", ".*", ".*"))
	id := fresh(lock.Mutex)
	_, h := plainHolder(t, id)
	l := plain(t, backend(t, plainly(shared.URLFor("limited", "right", "/"))), id)
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrDenied) {
		t.Errorf("it waits, with %v", err)
	} else {
		readable(t, err, `"`+id.Name+`-1-B"`, "configure permission")
	}
	must(t, h.Release(within(t)))
}

// Who may make the lock's own queues, and no others, has all that is needed.
func TestPermissionForTheQueuesOfALockAloneIsEnoughToWait(t *testing.T) {
	t.Parallel()
	must(t, shared.AddUser(within(t), "strict", "right"))
	must(t, shared.SetPermissions(within(t), "strict", "/", "^(?!.*-0[0-9]{3})", ".*", ".*"))
	type made struct {
		id     lock.ID
		queues rabbit.QueueType
	}
	all := []made{{fresh(lock.TokenSemaphore), rabbit.QueuesQuorum}}
	for _, kind := range lock.Kinds {
		all = append(all, made{fresh(kind), rabbit.QueuesClassic})
	}
	for _, m := range all {
		if m.id.Kind.Administered() {
			_, err := makeTyped(t, m.id, m.queues, 1)
			must(t, err)
			defer resize(t, shared, m.id, 0)
		}
		_, h := holder(t, shared, m.id)
		l := backend(t, at(shared.URLFor("strict", "right", "/"))).Lock(m.id)
		must(t, l.Connect(within(t)))
		if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Errorf("%s on %s queues: %v", m.id, m.queues, err)
		}
		must(t, l.Close())
		must(t, h.Release(within(t)))
	}
}

// A waiter for a slot that is held takes its reader's place, and may go no further.
func TestWaiterThatMayNotBeTheSuccessorIsToldWhileItWaits(t *testing.T) {
	t.Parallel()
	must(t, shared.AddUser(within(t), "readless", "right"))
	must(t, shared.SetPermissions(within(t), "readless", "/", ".*", ".*", ".*-W$"))
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	defer resize(t, shared, id, 0)
	_, h := holding(t, id, long)
	cfg, said := journal()
	cfg.URLs = []string{shared.URLFor("readless", "right", "/")}
	l := backend(t, cfg).Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	over := make(chan error, 1)
	go func() { over <- l.Wait(ctx, time.Second) }()
	eventually(t, "it is told", func() bool { return said("cannot be the next holder") > 0 && said("read permission") > 0 })
	cancel()
	<-over
	must(t, h.Release(within(t)))
}
