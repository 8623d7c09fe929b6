package rabbit_test

import (
	"errors"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// What a node of a cluster that is down does to the queues on it: probes come back,
// and a client that looks a queue up is told why.

func TestSemaphoreOnANodeThatIsDownIsNotCalledGone(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	l := connected(t, shared, id)
	up := nodeDown(t, of(id, "1-A"))
	for range 2 {
		if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnknown) {
			t.Errorf("a semaphore on a node that is down: %v", err)
		}
	}
	up()
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Release(within(t)))
}

func TestWillIsExecutedWhenTheLedgersNodeIsBack(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	will := h.Handover().Will
	vanish(t, l)
	up := nodeDown(t, of(id, "1-T"))
	done := make(chan error, 1)
	go func() { done <- rabbit.ExecuteWill(within(t), will) }()
	select {
	case err := <-done:
		t.Fatalf("the will was executed, or not (%v), while its ledger is down", err)
	case <-time.After(300 * time.Millisecond):
	}
	up()
	must(t, <-done)
	_, next := claimed(t, id, long)
	must(t, next.Ready(within(t)))
}

// Where a cluster is split, the ledger may be on the other side, with a successor.
func TestSlotIsNotVerifiedWithoutItsLedger(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, id lock.ID) {
		_, h := holding(t, id, long)
		up := nodeDown(t, of(id, "1-T"))
		err := proven(within(t), h)
		if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrLost) {
			t.Errorf("Verify: %v", err)
		} else {
			readable(t, err, of(id, "1-T"))
		}
		up()
		must(t, proven(within(t), h))
	})
}

// RabbitMQ answers the deletion of a quorum queue after 5 s then, and a limit of 5 s would end each action on the way.
//
// It needs BERTH_TEST_NODES=3.
func TestReplicatedLockIsResizedWithOneOfThreeNodesDown(t *testing.T) {
	if len(cluster.Nodes) < 3 {
		t.Skip("it takes three nodes, see BERTH_TEST_NODES")
	}
	id := replicated(t, 3)
	must(t, cluster.Nodes[2].Kill9())
	defer func() { must(t, cluster.Nodes[2].Restart(within(t))) }()
	for _, size := range []int{1, 2, 0} {
		a := backend(t, at(shared.URL())).Administrator(id)
		began := time.Now()
		_, after, err := a.Resize(within(t), 1, func(int) (int, error) { return size, nil })
		t.Logf("%d slots after %s", after, time.Since(began))
		if err != nil || after != size {
			t.Errorf("%d slots were wanted: %d, %v", size, after, err)
		}
	}
}

// nodeDown makes a durable queue look as if its node were down, until up.
func nodeDown(t *testing.T, queue string) (up func()) {
	t.Helper()
	if shared.Since(4, 3) {
		t.Skip("RabbitMQ 4.3 has no Mnesia, which is what answers like that while a node is down")
	}
	must(t, shared.HideQueue(within(t), "/", queue))
	return func() {
		t.Helper()
		must(t, shared.ShowQueue(within(t), "/", queue))
	}
}
