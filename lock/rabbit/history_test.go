package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// heldBy is the record of a holder that may live for so long.
func heldBy(term uint64, mayLive time.Duration) amqp.Publishing {
	return written(fmt.Sprintf(`{"record":"held","term":%d,"handover_ms":%d,"id":"somebody","host":"there"}`, term,
		mayLive.Milliseconds()))
}

func releaseOf(term uint64) amqp.Publishing {
	return written(fmt.Sprintf(`{"record":"released","term":%d,"id":"somebody"}`, term))
}

func written(content string) amqp.Publishing {
	return amqp.Publishing{UserId: "guest", Headers: amqp.Table{"content": content}}
}

// ledgerWith returns a mutex whose ledger has these records alone.
func ledgerWith(t *testing.T, records ...amqp.Publishing) lock.ID {
	t.Helper()
	id := fresh(lock.Mutex)
	ledger := id.Name + "-1-T"
	l, h := holding(t, id, time.Second) // makes it
	must(t, h.Release(within(t)))
	must(t, l.Close())
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueuePurge(ledger, false)
		return err
	})
	appendTo(t, ledger, records...)
	return id
}

// appendTo writes the records in one step, so that nobody sees a part of them.
func appendTo(t *testing.T, ledger string, records ...amqp.Publishing) {
	t.Helper()
	onChannel(t, func(ch *amqp.Channel) error {
		if err := ch.Tx(); err != nil {
			return err
		}
		for _, r := range records {
			if err := ch.PublishWithContext(within(t), "", ledger, true, false, r); err != nil {
				return err
			}
		}
		return ch.TxCommit()
	})
}

// The holder of term 2 can have been recorded, have lost the slot to the one of
// term 1 again, and not have known.
func TestEveryHolderHasToBeReleased(t *testing.T) {
	t.Parallel()
	id := ledgerWith(t, heldBy(1, 2*long), heldBy(2, 2*long), releaseOf(2))
	_, h := claimed(t, id, time.Second)
	ready := waits(t, h)
	appendTo(t, id.Name+"-1-T", releaseOf(1))
	must(t, <-ready)
	if h.Term() <= 2 {
		t.Errorf("term %d after 1 and 2", h.Term())
	}
}

func TestOfTwoRecordsOfOneTermTheLongerDelayCounts(t *testing.T) {
	t.Parallel()
	for _, records := range [][]amqp.Publishing{
		{heldBy(1, 2*long), written(sameTerm)},
		{written(sameTerm), heldBy(1, 2*long)},
	} {
		_, h := claimed(t, ledgerWith(t, records...), time.Second)
		waits(t, h)
	}
}

// After a ledger has lost its newest record, two have the same term.
func TestReleaseOfOneOfTwoWritersOfATermIsNotTheOthers(t *testing.T) {
	t.Parallel()
	_, h := claimed(t, ledgerWith(t, heldBy(1, 2*long), written(sameTerm),
		written(`{"record":"released","term":1,"id":"another"}`)), time.Second)
	waits(t, h)
}

// sameTerm is a record of term 1 by another writer than that of heldBy, with a delay
// that nobody waits for.
const sameTerm = `{"record":"held","term":1,"handover_ms":1,"id":"another","host":"elsewhere"}`

// A ledger may have lost its newest records.
func TestTermIsNoLessThanTheClock(t *testing.T) {
	t.Parallel()
	for _, records := range [][]amqp.Publishing{
		{heldBy(1, 2*long), releaseOf(1)},
		{heldBy(1, 2*long), releaseOf(1), releaseOf(2)},
	} {
		before := uint64(time.Now().UnixMicro())
		_, h := holding(t, ledgerWith(t, records...), time.Second)
		if h.Term() < before {
			t.Errorf("term %d, which may have been used", h.Term())
		}
	}
}

func TestTermIsAboveOneThatIsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, 19 * 365 * 24 * time.Hour} {
		ahead := uint64(time.Now().Add(by).UnixMicro())
		for _, records := range [][]amqp.Publishing{
			{heldBy(ahead, 2*long), releaseOf(ahead)},
			{heldBy(1, 2*long), releaseOf(1), releaseOf(ahead)},
		} {
			if _, h := holding(t, ledgerWith(t, records...), time.Second); h.Term() <= ahead {
				t.Errorf("term %d after %d", h.Term(), ahead)
			}
		}
	}
}

// Records that come back from somebody's hand are pushed one by one, the release
// that is waited for before the record of who came after it.
func TestRecordBehindTheReleaseThatIsWaitedForCounts(t *testing.T) {
	t.Parallel()
	id := ledgerWith(t, heldBy(1, 2*long))
	cfg, said := journal()
	cfg.Heartbeat = time.Second
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() { done <- h.Ready(ctx) }()
	appendTo(t, id.Name+"-1-T", releaseOf(1), heldBy(3, 2*long))
	eventually(t, "the holder of term 3 is waited for, or gets its slot back", func() bool {
		select {
		case err := <-done:
			done <- err
			return true
		default:
		}
		return said("term=3") > 0
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, lock.ErrFull) {
		t.Errorf("beside the holder of term 3: %v", err)
	}
}

// Who reads the ledger has records in hand that count.
func TestNobodyStartsBesideSomebodyWhoReadsTheLedger(t *testing.T) {
	t.Parallel()
	id := ledgerWith(t, heldBy(1, 2*long), releaseOf(1))
	_, ch := stranger(t)
	read, err := ch.Consume(id.Name+"-1-T", "", false, false, false, false, nil)
	must(t, err)
	<-read
	l := connected(t, shared, id)
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring while somebody reads the ledger: %v", err)
	}
	must(t, ch.Close())
	succeeds(t, "the slot", func() error {
		_, err := l.Acquire(within(t))
		return err
	})
}
