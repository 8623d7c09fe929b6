package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// fullOfTwo returns the holders of both slots of a semaphore, by slot.
func fullOfTwo(t *testing.T, id lock.ID) (locks map[int]lock.Lock, held map[int]lock.Held) {
	t.Helper()
	locks, held = map[int]lock.Lock{}, map[int]lock.Held{}
	resize(t, shared, id, 2)
	for range 2 {
		l, h := holding(t, id, time.Second)
		locks[h.Slot()], held[h.Slot()] = l, h
	}
	return locks, held
}

// standby returns a contender that has become the successor for a slot, and what its command's start comes to.
func standby(t *testing.T, id lock.ID, heartbeat time.Duration) (slot int, started <-chan error) {
	t.Helper()
	cfg := at(shared.URL())
	cfg.Heartbeat = heartbeat
	l := refused(t, cfg, id)
	ctx, cancel := context.WithCancel(within(t))
	turn := make(chan error, 1)
	var waiting sync.WaitGroup
	t.Cleanup(func() { cancel(); waiting.Wait() })
	waiting.Go(func() { turn <- awaitTurn(ctx, l) })
	return successorSlot(t, l), turn
}

// successorSlot waits until a contender is the successor for a slot.
func successorSlot(t *testing.T, l lock.Lock) int {
	t.Helper()
	select {
	case h := <-l.Handovers():
		return h.Slot
	case <-time.After(patience):
		t.Fatal("it is no successor for any slot")
		return 0
	}
}

// All waiters are successors for other slots, and nobody tells them.
func TestSlotOfAVanishedHolderIsFoundByTheSuccessorForAnother(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	locks, _ := fullOfTwo(t, id)
	slot, started := standby(t, id, time.Second)
	vanish(t, locks[3-slot])
	must(t, <-started)
}

func TestSlotThatIsLeftByItsReaderGoesToTheSuccessorForAnother(t *testing.T) {
	id := fresh(lock.Semaphore)
	_, held := fullOfTwo(t, id)
	leaver := refused(t, at(shared.URL()), id)
	woken := untilWoken(t, leaver)
	slot := successorSlot(t, leaver)
	awaitBaton(t, id)
	_, started := standby(t, id, long) // which does not look by itself in this time
	succeeds(t, "both are successors", func() error {
		q, err := batonQueue(t, id)
		if err == nil && (q.Consumers != 4 || q.Unacked != 2) {
			err = errors.New("one of them has no baton yet")
		}
		return err
	})
	must(t, held[slot].Release(within(t)))
	must(t, <-woken)
	must(t, leaver.Close())
	must(t, <-started)
}

// Told to end at any moment on its way to the reader's place, it leaves no record behind that others would have to wait
// for.
func TestWaiterThatGivesUpOnItsWayKeepsNobody(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		id := fresh(lock.Mutex)
		_, h := holding(t, id, long)
		for n := range 25 {
			w := refused(t, at(shared.URL()), id)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n+round)*400*time.Microsecond)
			_ = w.Wait(ctx, time.Hour)
			cancel()
			must(t, w.Close())
		}
		must(t, h.Release(within(t)))
		next := connected(t, shared, id)
		h, err := next.Acquire(within(t))
		if err == nil {
			err = h.Ready(within(t))
		} else {
			err = awaitTurn(within(t), next)
		}
		must(t, err)
	}
}

// One that was called as soon as it stood in line has found out of no slot but that one. It goes on where it is, however
// many there are: it counts a few with each look.
func TestSuccessorThatHasCountedNoSlotsFindsOneThatIsFree(t *testing.T) {
	for slots, looks := range map[int]int{4: 1, 12: 2} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			id := fresh(lock.Semaphore)
			resize(t, shared, id, slots)
			for range slots {
				if _, h := holder(t, shared, id); h.Slot() == slots {
					must(t, h.Release(within(t)))
					b := fmt.Sprintf("%s-%d-B", id.Name, slots)
					eventually(t, "the slot is free", func() bool { return !slices.Contains(queues(t, shared, id), b) })
				}
			}
			l := backend(t, at(shared.URL())).Lock(id)
			t.Cleanup(func() { l.Close() })
			succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
			for look := range looks {
				want := 0
				if look == looks-1 {
					want = slots
				}
				if got := rabbit.Beside(within(t), l, 1); got != want {
					t.Errorf("look %d: slot %d, not %d", look+1, got, want)
				}
			}
		})
	}
}
