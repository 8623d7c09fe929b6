package rabbit_test

import (
	"testing"

	"berth/lock"
)

func TestSlotThatNeedsNoWaitIsPreferred(t *testing.T) {
	t.Parallel()
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

// As after a power failure.
func TestSlotIsTakenThoughAllHaveToBeWaitedFor(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{2, 12} {
		id := fresh(lock.Semaphore)
		resize(t, shared, id, slots)
		var gone []lock.Lock
		for range slots {
			l, _ := holding(t, id, long)
			gone = append(gone, l)
		}
		for _, l := range gone {
			vanish(t, l)
		}
		_, h := claimed(t, id, long)
		if h.Slot() != 1 {
			t.Errorf("of %d slots %d was taken, not 1", slots, h.Slot())
		}
		waits(t, h)
	}
}
