package rabbit_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// Without its record a successor would wait for the successor's lease, not for this
// holder's.
func TestLedgerThatWasPurgedIsWrittenAgain(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	ledger := id.Name + "-1-T"
	l, h := holding(t, id, long)
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueuePurge(ledger, false)
		return err
	})
	must(t, proven(within(t), h))
	vanish(t, l)
	_, next := claimed(t, id, time.Second)
	ready := waits(t, next)
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, <-ready)
	if next.Term() <= h.Term() {
		t.Errorf("term %d after %d", next.Term(), h.Term())
	}
}

func TestSlotThatIsMadeAgainIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	cfg, said := journal()
	id, _, vacant := removedFor(t, cfg, long)
	eventually(t, "the slot is waited for", func() bool { return said("waiting for the last holder") > 0 })
	resize(t, shared, id, 1)
	if err := <-vacant; !errors.Is(err, lock.ErrBusy) {
		t.Errorf("the wait ended with %v", err)
	}
}

func TestSlotThatIsStillHeldIsNamedOnce(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	_, h := holding(t, id, long)
	resize(t, shared, id, 0)
	cfg, said := journal()
	a := backend(t, cfg).Administrator(id)
	t.Cleanup(func() { a.Close() })
	vacant := make(chan error, 1)
	go func() { vacant <- a.AwaitVacant(within(t), 1, 1) }()
	eventually(t, "it says which slot is held", func() bool { return said("the slot is still held") > 0 })
	must(t, h.Release(within(t)))
	must(t, <-vacant)
	if n := said("the slot is still held"); n != 1 {
		t.Errorf("it says so %d times", n)
	}
}
