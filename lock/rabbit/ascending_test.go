package rabbit_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

func destroyAscending(t *testing.T, id lock.ID, sweep int, begun func()) (before, after int, err error) {
	t.Helper()
	a := backend(t, at(shared.URL())).Administrator(id)
	return a.RemoveAscending(within(t), sweep, func(int) (int, error) {
		begun()
		return 0, nil
	})
}

// workers returns the holders of all slots of a new semaphore, by slot.
func workers(t *testing.T, id lock.ID, slots int) map[int]lock.Held {
	t.Helper()
	resize(t, shared, id, slots)
	all := map[int]lock.Held{}
	for range slots {
		_, h := holding(t, id, long)
		all[h.Slot()] = h
	}
	return all
}

func TestSemaphoreIsRemovedFromBelowWithHoldersAtWork(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	held := workers(t, id, 3)
	before, after, err := destroyAscending(t, id, 2, func() {})
	if before != 3 || after != 0 || err != nil {
		t.Errorf("%d slots, then %d, %v", before, after, err)
	}
	for slot, h := range held {
		if err := h.Verify(within(t)); !errors.Is(err, lock.ErrLost) {
			t.Errorf("slot %d: %v", slot, err)
		}
		_ = h.Release(within(t))
	}
	if left := queues(t, shared, id); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// A berth that removes slots may die on the way: what is left is held on, and nobody obtains it.
func TestLeftoversOfARemovalFromBelowAreHeldUntilTheyArePruned(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	held := workers(t, id, 4)
	conn, ch := stranger(t)
	_, after, err := destroyAscending(t, id, 1, func() {
		_, err := ch.QueueDelete(id.Name+"-2-A", false, false, false)
		must(t, err)
		_, err = ch.QueueDeclare(id.Name+"-2-A", false, false, true, false, amqp.Table{}) // which cannot be removed
		must(t, err)
	})
	if after != 0 || !errors.Is(err, lock.ErrUnknown) {
		t.Fatalf("%d slots are left, %v", after, err)
	}
	must(t, conn.Close())
	must(t, held[3].Verify(within(t)))
	must(t, held[3].Release(within(t)))
	if _, err := connectedAcquire(t, id); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("with leftovers: %v", err)
	}
	must(t, held[4].Verify(within(t)))
	_, _, err = backend(t, at(shared.URL())).Administrator(id).Resize(within(t), 3, func(int) (int, error) { return 1, nil })
	must(t, err)
	if err := held[4].Verify(within(t)); !errors.Is(err, lock.ErrLost) {
		t.Errorf("after it was pruned: %v", err)
	}
	for _, slot := range []int{1, 2, 4} {
		_ = held[slot].Release(within(t))
	}
	if left, want := queues(t, shared, id), []string{id.Name + "-1-A"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

// What was left behind a gap wider than the sweep is found from leftover to leftover.
func TestLeftoversArePrunedAsFarAsTheyFollowEachOther(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	for _, slot := range []int{3, 5, 7, 9} {
		declare(t, shared.URL(), fmt.Sprintf("%s-%d-A", id.Name, slot))
	}
	before, _, err := destroyAscending(t, id, 3, func() {})
	if left := queues(t, shared, id); before != 0 || err != nil || len(left) > 0 {
		t.Errorf("%d slots before, %v; left are %v", before, err, left)
	}
}
