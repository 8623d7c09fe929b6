package rabbit_test

import (
	"testing"

	"berth/lock"
	"berth/lock/rabbit"
)

func TestSlotThatNeedsNoWaitIsPreferred(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 3)
	first, _ := holding(t, id, long)
	vanish(t, first)
	_, h := claimed(t, id, long)
	if h.Slot() != 2 {
		t.Errorf("slot %d; want 2, because the last holder of slot 1 may have to be waited for", h.Slot())
	}
	must(t, h.Ready(within(t)))
	_, h = holding(t, id, long)
	if h.Slot() != 3 {
		t.Errorf("slot %d; want 3", h.Slot())
	}
	_, h = claimed(t, id, long) // the only one left
	if h.Slot() != 1 {
		t.Errorf("slot %d; want 1", h.Slot())
	}
	waits(t, h)
}

func TestSlotIsTakenThoughAllHaveToBeWaitedFor(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 2)
	one, first := holding(t, id, long)
	other, _ := holding(t, id, long)
	vanish(t, one)
	vanish(t, other)
	_, h := claimed(t, id, long)
	if h.Slot() == first.Slot() {
		must(t, rabbit.ExecuteWill(within(t), first.Handover().Will))
		must(t, h.Ready(within(t)))
		return
	}
	waits(t, h)
}
