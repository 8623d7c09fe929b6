package rabbit_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// A reader that goes puts records back while the next holder enters. That one reads
// the ledger anew, and leaves nothing of it behind.
func TestLedgerThatIsReadAnewHasTheNewHolderAlone(t *testing.T) {
	id := fresh(lock.Mutex)
	ledger := id.Name + "-1-T"
	l, old := holding(t, id, time.Second)
	will := old.Handover().Will
	_, ch := stranger(t)
	pushed, err := ch.Consume(ledger, "", false, false, false, false, nil)
	must(t, err)
	<-pushed // the record of the holder, who dies without a release
	vanish(t, l)
	cfg, said := journal()
	cfg.Heartbeat = time.Second
	next := backend(t, cfg).Lock(id)
	t.Cleanup(func() { next.Close() })
	must(t, next.Connect(within(t)))
	h, err := next.Acquire(within(t))
	must(t, err)
	ready := make(chan error, 1)
	go func() { ready <- h.Ready(within(t)) }()
	select {
	case <-pushed: // its own record: it has waited
	case <-time.After(patience):
		t.Fatal("the next holder is not recorded")
	}
	must(t, ch.Close())
	must(t, <-ready)
	if n := said("does not keep"); n != 0 {
		t.Error("the broker is said not to keep records")
	}
	must(t, rabbit.ExecuteWill(within(t), will)) // too late to matter
	must(t, h.Release(within(t)))
	cfg, said = journal()
	cfg.Heartbeat = long
	holdingAs(t, cfg, id)
	if said("waiting for the last holder") != 0 {
		t.Error("a holder that ended in order is waited for, or one before it")
	}
	if said("does not keep") != 0 {
		t.Error("a release that came late is taken for a record that was not kept")
	}
}

// Without its record a successor would wait for the successor's lease, not for this
// holder's.
func TestLedgerThatWasPurgedIsWrittenAgain(t *testing.T) {
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
	waits(t, next)
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, next.Ready(within(t)))
	if next.Term() != h.Term()+1 {
		t.Errorf("term %d after %d", next.Term(), h.Term())
	}
}

func TestLedgerThatSomebodyGoesOnConsumingIsNotEntered(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := claimed(t, id, time.Second)
	_, ch := stranger(t)
	_, err := ch.Consume(id.Name+"-1-T", "", false, false, false, false, nil)
	must(t, err)
	err = h.Ready(within(t))
	if !errors.Is(err, lock.ErrUnknown) {
		t.Fatalf("Ready returned %v", err)
	}
	readable(t, err, "consumes its ledger", "rabbitmqctl list_consumers")
}

func TestSlotThatIsMadeAgainIsNotWaitedFor(t *testing.T) {
	cfg, said := journal()
	id, _, vacant := removedFor(t, cfg, long)
	eventually(t, "the slot is waited for", func() bool { return said("waiting for the last holder") > 0 })
	resize(t, shared, id, 1)
	if err := <-vacant; !errors.Is(err, lock.ErrBusy) {
		t.Errorf("the wait ended with %v", err)
	}
}

func TestSlotThatIsStillHeldIsNamedOnce(t *testing.T) {
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
