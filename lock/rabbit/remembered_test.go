package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/lock/rabbit/names"
)

// mustNotStart makes sure that a contender that has a slot, or its place, does not start.
func mustNotStart(t *testing.T, h lock.Held) {
	t.Helper()
	select {
	case err := <-untilReady(t, h):
		if err == nil {
			t.Error("a command starts beside another one")
		}
	case <-time.After(300 * time.Millisecond):
	}
}

// A holder that has come back says so in the ledger before it counts on the slot.
func TestReclaimedSlotWithoutALedgerIsRecorded(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-T"))
	rabbit.CutConnection(h)
	_ = lost(t, h)
	must(t, h.Reclaim(within(t)))
	rabbit.CutConnection(h) // before its next verification
	_ = lost(t, h)
	if _, newcomer := claimed(t, id, long); newcomer != nil {
		mustNotStart(t, newcomer)
	}
}

// The successor knows for whom it has waited, also when the ledger does not.
func TestHolderIsRememberedWithoutItsLedger(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	cfg, said := journal()
	cfg.Heartbeat = long
	next := refused(t, cfg, id)
	turn := inBackground(t, func(ctx context.Context) error { return awaitTurn(ctx, next) })
	awaitSuccessor(t, id)
	rabbit.CutConnection(h) // which stays away, and its command runs
	_ = lost(t, h)
	must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-T"))
	eventually(t, "it has come to a new ledger, or waits with B away from it", func() bool {
		q, _, err := shared.Queue(within(t), "/", id.Name+"-1-T")
		must(t, err)
		return q.Consumers > 0 || said("the ledger does not name the slot's last holder") > 0
	})
	waitsStill(t, turn)
}

// The broker drops the oldest messages of a full ledger, one record maybe.
func TestFullLedgerSaysNothing(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	setPolicy(t, id, "-1-T$", `[{<<"max-length">>, 100}]`) // which is less than berth says
	_, h := holding(t, id, long)
	fillLedger(t, h)
	_, newcomer := claimed(t, id, long)
	mustNotStart(t, newcomer)
}

// fillLedger fills the ledger of a holder, so that its record is dropped, and has it vanish.
func fillLedger(t *testing.T, h lock.Held) {
	t.Helper()
	_, ledger := rabbit.Queues(h)
	// There was a successor, which was asked to step back very often, and has died.
	for _, what := range []string{"held", "released"} {
		publish(t, ledger, written(fmt.Sprintf(`{"record": %q, "term": %d, "id": "N"}`, what, h.Term()+1)))
	}
	onChannel(t, func(ch *amqp.Channel) error {
		must(t, ch.Confirm(false))
		var last *amqp.DeferredConfirmation
		for range names.LedgerFull - 2 {
			var err error
			if last, err = ch.PublishWithDeferredConfirm("", ledger, false, false, amqp.Publishing{
				UserId: "guest", Expiration: "10000", Headers: amqp.Table{"content": `{"request":"yield","priority":5}`}}); err != nil {
				return err
			}
		}
		_, err := last.WaitContext(within(t))
		return err
	})
	rabbit.CutConnection(h)
	_ = lost(t, h)
}

// Nor do administrators believe it.
func TestFullLedgerDoesNotSayThatASlotIsVacant(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	_, h := holding(t, id, long)
	fillLedger(t, h)
	resize(t, shared, id, 0)
	a := backend(t, at(shared.URL())).Administrator(id)
	t.Cleanup(func() { a.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.AwaitVacant(ctx, 1, 1); err == nil {
		t.Error("a slot is called vacant whose command may run")
	}
}

// A doubt about a connection that lives, as after an alarm that is over.
func TestReclaimOnALiveConnectionEnds(t *testing.T) {
	_, h := holding(t, fresh(lock.Mutex), long)
	rabbit.Doubt(h)
	_ = lost(t, h)
	must(t, h.Reclaim(within(t)))
	must(t, h.Verify(within(t)))
	must(t, h.Release(within(t)))
}

// The successor for a slot that was removed hears of the next one.
func TestSuccessorForARemovedSlotHearsOfAnother(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	_, h := holding(t, id, long)
	cfg := at(shared.URL())
	cfg.Heartbeat = time.Second
	next, woken := successor(t, cfg, id)
	awaitBaton(t, id)
	resize(t, shared, id, 0)
	must(t, <-woken)
	if _, err := next.Acquire(within(t)); !errors.Is(err, lock.ErrAbsent) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(next)
	woken = untilWoken(t, next)
	must(t, h.Release(within(t)))
	awaitPlaces(t, id, 1)
	resize(t, shared, id, 1)
	must(t, <-woken)
}

// A slot that was removed while its command ran has no other.
func TestSuccessorDoesNotStartInARemovedSlot(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	_, h := holding(t, id, long)
	next, woken := successor(t, lasting(), id)
	resize(t, shared, id, 0)
	must(t, h.Release(within(t)))
	must(t, <-woken)
	if again, err := next.Acquire(within(t)); err == nil {
		if err = again.Ready(within(t)); err == nil {
			t.Error("a command starts in a slot that was removed")
		}
	} else if !errors.Is(err, lock.ErrAbsent) {
		t.Error(err)
	}
}

// One that waits away from the reader's place, and is blocked there, does not keep others waiting when it gives up.
func TestWaiterOutsideGivesUpUnderAnAlarm(t *testing.T) {
	id := fresh(lock.Mutex)
	l, _ := holding(t, id, long)
	vanish(t, l)
	l, w := claimed(t, id, long)
	ready := make(chan error, 1)
	go func() { ready <- w.Ready(within(t)) }()
	_, ledger := rabbit.Queues(w)
	eventually(t, "it waits away from the reader's place", func() bool {
		q, _, err := shared.Queue(within(t), "/", ledger)
		return err == nil && q.Consumers == 0 && q.Unacked > 0
	})
	raiseAlarm(t)
	go func() { _ = rabbit.Probe(within(t), l, "whatever") }() // or the broker has no reason to block it
	if err := <-ready; err == nil {
		t.Error("it may start")
	}
	ctx, cancel := context.WithTimeout(within(t), 2*time.Second) // as long as Close takes for it
	defer cancel()
	must(t, w.Release(ctx))
}
