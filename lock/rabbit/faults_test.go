package rabbit_test

import (
	"errors"
	"fmt"
	"testing"

	"berth/lock"
	"berth/lock/rabbit"
)

var kinds = []lock.Kind{lock.Mutex, lock.Semaphore, lock.TokenSemaphore}

// of returns the name of a queue of the lock, such as that with the suffix 1-B.
func of(id lock.ID, suffix string) string {
	if id.Kind == lock.TokenSemaphore {
		suffix = "K-" + suffix
	}
	return id.Name + "-" + suffix
}

// eachKind runs the test for a mutex, and for semaphores of two slots.
func eachKind(t *testing.T, test func(t *testing.T, id lock.ID)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { test(t, freshSlots(t, kind)) })
	}
}

// freshSlots returns a mutex, or a semaphore of two slots, until the test ends.
func freshSlots(t *testing.T, kind lock.Kind) lock.ID {
	t.Helper()
	id := fresh(kind)
	if kind.Administered() {
		resize(t, shared, id, 2)
		t.Cleanup(func() { resize(t, shared, id, 0) })
	}
	return id
}

func raiseAlarm(t *testing.T) {
	t.Helper()
	must(t, shared.RaiseMemoryAlarm(within(t)))
	t.Cleanup(func() { must(t, shared.ClearMemoryAlarm(within(t))) })
}

// One alarm for all kinds: what the broker blocks under it is given up after seconds.
func TestUnderMemoryAlarmSlotsAreHeldWonAndGivenBack(t *testing.T) {
	before := map[lock.ID]lock.Held{}
	for _, kind := range kinds {
		id := freshSlots(t, kind)
		_, before[id] = holding(t, id, long)
		waiter := connected(t, shared, id)
		if id.Kind.Sized() {
			must2(waiter.Acquire(within(t)))(t) // its publisher has published before the alarm
		} else if _, err := waiter.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatalf("a second holder of a mutex: %v", err)
		}
	}
	raiseAlarm(t)
	t.Run("all", func(t *testing.T) { // together
		for id, before := range before {
			t.Run(string(id.Kind), func(t *testing.T) {
				t.Parallel()
				goesOnUnderAnAlarm(t, id, before)
			})
		}
	})
}

// goesOnUnderAnAlarm uses a lock of which another slot than that of the holder is taken.
func goesOnUnderAnAlarm(t *testing.T, id lock.ID, before lock.Held) {
	must(t, proven(within(t), before))
	must(t, before.Release(within(t)))
	for range 2 { // after one that was there before the alarm, and one that was not
		newcomer := connected(t, shared, id)
		var h lock.Held
		succeeds(t, "the slot", func() (err error) {
			if h, err = acquire(t, newcomer); err != nil {
				return err
			}
			if err = h.Ready(within(t)); err != nil { // news of the alarm came late
				_ = h.Release(within(t))
			}
			return err
		})
		must(t, proven(within(t), h))
		succeeds(t, "news of a full lock", func() error {
			if _, err := acquire(t, connected(t, shared, id)); !errors.Is(err, lock.ErrFull) {
				return fmt.Errorf("acquiring a full lock under the alarm: %w", err)
			}
			return nil
		})
		must(t, h.Release(within(t)))
		must(t, newcomer.Close())
	}
}

func must2[T any](_ T, err error) func(*testing.T) {
	return func(t *testing.T) { t.Helper(); must(t, err) }
}

func connectedAcquire(t *testing.T, id lock.ID) (lock.Held, error) {
	t.Helper()
	return connected(t, shared, id).Acquire(within(t))
}

func TestContenderSurvivesAnAlarmAndGoesOnAfterIt(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	l := connected(t, shared, id)
	cycle := func() {
		t.Helper()
		var h lock.Held
		succeeds(t, "the slot", func() (err error) {
			h, err = acquire(t, l)
			return err
		})
		start(t, h)
		must(t, h.Release(within(t)))
	}
	alarm := l.Alarm
	cycle()
	if said := alarm(); said != "" {
		t.Errorf("before the alarm it says %q", said)
	}
	must(t, shared.RaiseMemoryAlarm(within(t)))
	cycle()
	if alarm() == "" {
		t.Error("it says nothing of the alarm")
	}
	cycle()
	must(t, shared.ClearMemoryAlarm(within(t)))
	cycle()
	if said := alarm(); said != "" {
		t.Errorf("after the alarm it says %q", said)
	}
	resize(t, shared, id, 0)
	if _, err := acquire(t, l); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("acquiring a lock that was removed: %v", err)
	}
}

func TestAdministrationWorksUnderMemoryAlarm(t *testing.T) {
	raiseAlarm(t)
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 3)
	a := backend(t, at(shared.URL())).Administrator(id)
	defer a.Close()
	if n, err := a.Slots(within(t)); n != 3 || err != nil {
		t.Errorf("%d slots, %v; want 3", n, err)
	}
	must(t, a.AwaitVacant(within(t), 1, 3))
	resize(t, shared, id, 0)
}

func TestHolderIsToldThatItsQueueWasDeleted(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, id lock.ID) {
		l, h := holder(t, shared, id)
		must(t, shared.DeleteQueue(within(t), "/", of(id, "1-B")))
		if err := lost(t, h); !errors.Is(err, lock.ErrLost) {
			t.Errorf("cause: %v", err)
		}
		if err := proven(within(t), h); !errors.Is(err, lock.ErrLost) {
			t.Errorf("verifying: %v", err)
		}
		must(t, h.Release(within(t)))
		again, err := l.Acquire(within(t))
		must(t, err)
		must(t, proven(within(t), again))
		must(t, again.Release(within(t)))
	})
}

func TestReleaseAfterALossLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	must(t, shared.DeleteQueue(within(t), "/", of(id, "1-B")))
	_ = lost(t, h)
	_, next := claimed(t, id, long)
	rabbit.TakeBAfter(next, 0)
	ready := waits(t, next)
	must(t, h.Release(within(t)))
	must(t, <-ready)
	awaitB(t, next)
	must(t, proven(within(t), next))
}

func TestVerifyFindsOutThatTheSlotWasRemoved(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	_, h := holder(t, shared, id)
	must(t, shared.DeleteQueue(within(t), "/", of(id, "1-A")))
	if err := proven(within(t), h); !errors.Is(err, lock.ErrLost) {
		t.Fatalf("verifying a removed slot: %v", err)
	}
	must(t, h.Release(within(t)))
	if left := queues(t, shared, id); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestHolderSurvivesTheEndOfItsConsumersChannel(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holder(t, shared, id)
	must(t, rabbit.CloseConsumer(within(t), h))
	awaitConsumer(t, of(id, "1-B"))
	must(t, proven(within(t), h))
	must(t, h.Cause())
	must(t, shared.DeleteQueue(within(t), "/", of(id, "1-B")))
	_ = lost(t, h)
}

// unlucky is a holder whose connection is about to break, in whatever way.
type unlucky struct {
	l lock.Lock
	h lock.Held
}

func newUnlucky(t *testing.T, id lock.ID) unlucky {
	t.Helper()
	l, h := holder(t, shared, id)
	return unlucky{l, h}
}

// losesAndReturns makes sure that the holder has noticed, and can have the slot
// again.
func (u unlucky) losesAndReturns(t *testing.T) {
	t.Helper()
	u.loses(t)
	must(t, u.l.Connect(within(t)))
	var again lock.Held
	eventually(t, "the slot is ours again", func() (is bool) {
		var err error
		again, err = u.l.Acquire(within(t))
		return err == nil
	})
	must(t, again.Release(within(t)))
}

func (u unlucky) loses(t *testing.T) {
	t.Helper()
	if err := lost(t, u.h); !errors.Is(err, lock.ErrLost) {
		t.Errorf("cause: %v", err)
	}
	if err := proven(within(t), u.h); !errors.Is(err, lock.ErrLost) {
		t.Errorf("verifying: %v", err)
	}
	_ = u.h.Release(within(t))
	if _, err := u.l.Acquire(within(t)); !errors.Is(err, lock.ErrUnreachable) {
		t.Errorf("acquiring without a connection: %v", err)
	}
}

func TestConnectionClosedByTheOperatorIsALossAndCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, id lock.ID) {
		u := newUnlucky(t, id)
		if n, err := shared.CloseConnections(within(t), " "+id.Name+" @"); err != nil || n == 0 {
			t.Fatalf("closed %d connections, %v", n, err)
		}
		u.losesAndReturns(t)
	})
}

// One restart for all kinds: it takes its time.
func TestBrokerRestartIsALossAndTheLockIsThereAfterIt(t *testing.T) {
	all := map[lock.Kind]unlucky{}
	for _, kind := range kinds {
		all[kind] = newUnlucky(t, freshSlots(t, kind))
	}
	must(t, shared.RestartInPlace(withinMinute(t), 0))
	for kind, u := range all {
		t.Run(string(kind), u.losesAndReturns)
	}
}

// One kill for all that happens to holders of a broker that is killed, is gone,
// and comes back: it takes its time, too.
func TestKilledBroker(t *testing.T) {
	loss := newUnlucky(t, fresh(lock.Mutex))
	young, old := newAged(t)
	l, h := secondHolder(t)
	must(t, shared.Kill9())
	t.Cleanup(func() { // however this ends, others need it
		if _, err := shared.Connections(within(t)); err != nil {
			must(t, shared.Restart(withinMinute(t)))
		}
	})
	t.Run("gone", func(t *testing.T) { // together: all of these find out by waiting
		parallel := func(name string, test func(t *testing.T)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
		parallel("holder of a young ledger gives up at once", func(t *testing.T) { youngGivesUpAtOnce(t, young, old) })
		parallel("slot is given up without a broker", func(t *testing.T) { givenUpWithoutABroker(t, l, h) })
		parallel("is a loss", loss.loses)
	})
	must(t, shared.Restart(withinMinute(t)))
	t.Run("the lock is there afterwards", loss.losesAndReturns)
}
