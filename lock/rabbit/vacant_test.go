package rabbit_test

import (
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// removed returns a slot that was removed and has lost its holder, but may have
// its command still, with a wait for its vacancy.
func removed(t *testing.T, heartbeat time.Duration) (id lock.ID, h lock.Held, vacant <-chan error) {
	t.Helper()
	id = fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	l, h := holding(t, id, heartbeat)
	resize(t, shared, id, 0)
	vanish(t, l)
	a := backend(t, at(shared.URL())).Administrator(id)
	t.Cleanup(func() { a.Close() })
	done := make(chan error, 1)
	go func() { done <- a.AwaitVacant(within(t), 1, 3) }()
	return id, h, done
}

func TestRemovedSlotIsNotVacantBeforeItsCommandIsDead(t *testing.T) {
	_, h, vacant := removed(t, long)
	select {
	case err := <-vacant:
		t.Fatalf("the slot was called vacant, or not (%v), while its command may run", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, <-vacant)
}

func TestRemovedSlotIsVacantAfterTheHandoverDelay(t *testing.T) {
	began := time.Now()
	_, h, vacant := removed(t, time.Second)
	must(t, <-vacant)
	if took := time.Since(began); took < h.Lease() {
		t.Errorf("vacant after %s, before the lease of %s was over", took, h.Lease())
	}
}

func TestWaitForAVacancyOutlivesItsConnection(t *testing.T) {
	id, h, vacant := removed(t, long)
	closed := 0
	eventually(t, "two connections closed, one after the other", func() bool {
		n, err := shared.CloseConnections(within(t), id.Name+" @")
		must(t, err)
		closed += n
		return closed >= 2
	})
	select {
	case err := <-vacant:
		t.Fatalf("the wait ended: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, <-vacant)
}
