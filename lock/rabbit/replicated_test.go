package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// replicated returns a token semaphore with quorum queues, until the test ends.
func replicated(t *testing.T, slots int) lock.ID {
	t.Helper()
	id := fresh(lock.TokenSemaphore)
	_, err := makeTyped(t, id, rabbit.QueuesQuorum, slots)
	must(t, err)
	t.Cleanup(func() { resize(t, shared, id, 0) })
	return id
}

// makeTyped makes a lock with queues of a type, and returns how many slots it has.
func makeTyped(t *testing.T, id lock.ID, queues rabbit.QueueType, slots int) (after int, err error) {
	t.Helper()
	a := backend(t, typed(queues)).Administrator(id)
	defer a.Close()
	_, after, err = a.Resize(within(t), 0, func(int) (int, error) { return slots, nil })
	return after, err
}

func typed(queues rabbit.QueueType) rabbit.Config {
	cfg := at(shared.URL())
	cfg.QueueType = queues
	return cfg
}

// startedIn returns a contender whose command has started.
func startedIn(t *testing.T, id lock.ID) (lock.Lock, lock.Held) {
	t.Helper()
	l, h := claimed(t, id, long)
	must(t, h.Ready(within(t)))
	return l, h
}

// startedAs returns the slot of a holder whose command has started.
func startedAs(t *testing.T, cfg rabbit.Config, id lock.ID) lock.Held {
	t.Helper()
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	return h
}

// notHeld makes sure that a waiter has started nothing.
func notHeld(t *testing.T, won <-chan lock.Held) {
	t.Helper()
	select {
	case h := <-won:
		t.Fatalf("slot %d is held twice", h.Slot())
	default:
	}
}

// counted returns what a look says: what an operator sees of a quorum queue is seconds old.
func counted(t *testing.T, queue string) (ready, consumers int) {
	t.Helper()
	onChannel(t, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		ready, consumers = q.Messages, q.Consumers
		return err
	})
	return ready, consumers
}

func ledgerOf(id lock.ID) string { return id.Name + "-Q-1-T" }

func TestPurgedLedgerOnSeveralNodesSaysNothing(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	must(t, shared.PurgeQueue(within(t), "/", ledgerOf(id)))
	l, h := claimed(t, id, time.Second)
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if err := h.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it starts, and nobody knows who holds the slot: %v", err)
	}
	must(t, h.Release(within(t)))
	must(t, l.Close())
	must(t, shared.PurgeQueue(within(t), "/", ledgerOf(id)))
	l = connected(t, shared, id)
	rabbit.SetLongest(l, time.Millisecond)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	must(t, h.Release(within(t)))
}

// Nothing has run, and still nobody knows who held the slot before.
func TestWhoLeavesAnUnknownLedgerLeavesItUnknown(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	must(t, shared.PurgeQueue(within(t), "/", ledgerOf(id)))
	for who := range 2 {
		l, h := claimed(t, id, time.Second)
		ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
		defer cancel()
		if err := h.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("number %d starts, and nobody knows who holds the slot: %v", who+1, err)
		}
		must(t, h.Release(within(t)))
		must(t, l.Close())
	}
}

// It may leave again without having started anything, and then nothing else tells of that term.
func TestWaiterKeepsRecordsOfHigherTerms(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	publish(t, ledgerOf(id), heldBy(5, time.Hour))
	l, h := claimed(t, id, time.Second)
	later := h.Term() + uint64(time.Hour.Microseconds())
	publish(t, ledgerOf(id), releaseOf(later)) // first, or it would be somebody who lives
	publish(t, ledgerOf(id), heldBy(later, time.Hour))
	ctx, cancel := context.WithTimeout(within(t), time.Second) // it looks twice
	defer cancel()
	if err := h.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it does not wait: %v", err)
	}
	must(t, h.Release(within(t)))
	must(t, l.Close())
	_, h = claimed(t, id, time.Second)
	if h.Term() <= later {
		t.Errorf("term %d follows term %d", h.Term(), later)
	}
	must(t, h.Release(within(t)))
}

// A waiter that has come and gone while nothing was known must not keep the holder in doubt.
func TestWhoLeavesAnUnknownLedgerLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	rabbit.CutReplicated(h)
	eventually(t, "the ledger is left alone", func() bool {
		_, consumers := counted(t, ledgerOf(id))
		return consumers == 0
	})
	must(t, shared.PurgeQueue(within(t), "/", ledgerOf(id)))
	l, waiter := claimed(t, id, long)
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	if err := waiter.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it starts beside the holder: %v", err)
	}
	must(t, waiter.Release(within(t)))
	must(t, l.Close())
	must(t, proven(within(t), h))
	must(t, h.Release(within(t)))
}

// What a holder has in hand no purge removes.
func TestHolderOutlivesAPurgeOfItsLedger(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	won := untilHeld(t, connected(t, shared, id))
	for range 20 {
		must(t, shared.PurgeQueue(within(t), "/", ledgerOf(id)))
		must(t, proven(within(t), h))
	}
	notHeld(t, won)
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

func TestHolderWhoseLedgerIsDeletedHasLostIt(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	must(t, shared.DeleteQueue(within(t), "/", ledgerOf(id)))
	_ = lost(t, h)
	if err := proven(within(t), h); !errors.Is(err, lock.ErrLost) {
		t.Errorf("it goes on without a ledger: %v", err)
	}
	must(t, h.Release(within(t)))
	l := connected(t, shared, id)
	rabbit.SetLongest(l, time.Millisecond)
	after := wonBy(t, untilHeld(t, l)) // with a ledger that was made again
	must(t, after.Release(within(t)))
	_, h = startedIn(t, id)
	must(t, h.Release(within(t)))
}

// Somebody looks into the ledger with a tool of theirs.
func TestStrangerInTheReadersPlaceKeepsEverybodyOut(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	deliveries, err := ch.Consume(ledgerOf(id), "", false, false, false, false, nil)
	must(t, err)
	<-deliveries
	l := connected(t, shared, id)
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Errorf("beside a stranger: %v", err)
	}
	won := untilHeld(t, l)
	must(t, ch.Close())
	must(t, wonBy(t, won).Release(within(t)))
}

func TestSecondTokenOfAReplicatedSlotStartsNobody(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	publish(t, id.Name+"-Q", amqp.Publishing{Headers: amqp.Table{"slot": int32(1)}})
	other := connected(t, shared, id)
	if _, err := other.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Errorf("with a second token: %v", err)
	}
	must(t, proven(within(t), h))
	must(t, h.Release(within(t)))
}

func TestReplicatedSlotIsReclaimedFromAWaiter(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	won := untilHeld(t, connected(t, shared, id))
	for range 3 {
		eventually(t, "the waiter waits, and the holder has its token", func() bool {
			must(t, proven(within(t), h))
			_, consumers := counted(t, id.Name+"-Q") // with who has a token in hand
			return rabbit.KeepsToken(h) && consumers == 2
		})
		rabbit.CutReplicated(h)
		eventually(t, "the waiter is the reader", func() bool { // with the last holder's record, and its own
			ready, consumers := counted(t, ledgerOf(id))
			return ready == 0 && consumers == 1
		})
		succeeds(t, "the slot", func() error { return proven(within(t), h) })
		notHeld(t, won)
	}
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

// As a broker does that takes a delivery for too old, or was split.
func TestReplicatedSlotIsKeptWhenItsConsumerIsEnded(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	for range 3 {
		must(t, rabbit.CloseReader(within(t), h))
		succeeds(t, "the slot", func() error { return proven(within(t), h) })
	}
	must(t, h.Release(within(t)))
}

// The holder has not lost its place, and the next proof must not take the new record for that.
func TestRecordIsWrittenAgainWithoutADoubt(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	cfg, said := journal()
	cfg.Log.SetLevel(hclog.Debug)
	cfg.Heartbeat = long
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	rabbit.RewriteMoreOften(l, math.MaxInt)
	must(t, h.Ready(within(t)))
	late := func() int { return said("the record was not written anew") }
	ctx, doubts := withinMinute(t), 0
	for proofs := 0; proofs < 100; {
		before := late()
		switch err := h.Verify(ctx); {
		case err == nil && late() == before:
			proofs++
		case err == nil:
		case errors.Is(err, lock.ErrUnknown) && doubts < 2*late():
			doubts++ // the record and its copy have come amid proofs, which was given up: the broker is busy
		default:
			t.Fatal(err)
		}
	}
	must(t, h.Release(within(t)))
	// The record and its copy, maybe just written again, and the release.
	if ready, _ := counted(t, ledgerOf(id)); ready > 5 {
		t.Errorf("%d messages are left behind", ready)
	}
	_, h = startedIn(t, id)
	must(t, h.Release(within(t)))
}

// The broker ends a consumer that has a message in hand for longer than consumer_timeout, 30 minutes.
func TestReplicatedSlotOutlastsTheTimeoutOfConsumers(t *testing.T) {
	const timeout = 3 * time.Second
	set := func(timeout, tick time.Duration) {
		_, err := shared.Eval(within(t), fmt.Sprintf(`[application:set_env(rabbit, Key, Value) || {Key, Value} <-
			[{consumer_timeout, %d}, {channel_tick_interval, %d}]].`, timeout.Milliseconds(), tick.Milliseconds()))
		must(t, err)
	}
	set(timeout, timeout/10)
	defer set(30*time.Minute, time.Minute)
	id := replicated(t, 1)
	l, h := claimed(t, id, long)
	rabbit.RewriteMoreOften(l, int(30*time.Minute/timeout))
	must(t, h.Ready(within(t)))
	// As one leaves that has had the place while the holder came back.
	later := h.Term() + uint64(time.Hour.Microseconds())
	publish(t, ledgerOf(id), releaseOf(later))
	publish(t, ledgerOf(id), heldBy(later, time.Hour))
	proofs := time.NewTicker(timeout / 30)
	defer proofs.Stop()
	for began := time.Now(); time.Since(began) < 2*timeout; <-proofs.C {
		must(t, h.Verify(within(t)))
	}
	must(t, h.Release(within(t)))
	_, h = startedIn(t, id)
	if h.Term() <= later {
		t.Errorf("term %d follows term %d", h.Term(), later)
	}
	must(t, h.Release(within(t)))
}

func TestTokensOfAReplicatedLockAreMadeAgain(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	l := connected(t, shared, id)
	rabbit.LookForTokens(l, 50*time.Millisecond)
	must(t, shared.DeleteQueue(within(t), "/", id.Name+"-Q"))
	must(t, wonBy(t, untilHeld(t, l)).Release(within(t)))
}

// As one whose replicas do not agree on what it is.
func TestLedgerThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	do := func(what string) {
		_, err := shared.Eval(within(t), fmt.Sprintf(`{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue,
			<<"%s">>)), {Server, _} = amqqueue:get_pid(Queue), ok = sys:%s(Server).`, ledgerOf(id), what))
		must(t, err)
	}
	l := connected(t, shared, id)
	do("suspend")
	defer do("resume")
	_, err := l.Acquire(within(t))
	if !errors.Is(err, lock.ErrUnreachable) || !strings.Contains(err.Error(), ledgerOf(id)) ||
		!strings.Contains(err.Error(), "quorum_status") {
		t.Errorf("it is told: %v", err)
	}
}

// RabbitMQ 4.0 can hand a token to a consumer that was on a node which is gone.
func TestTokenWithADeadConsumerIsMadeAgainSoon(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	holder, h := startedIn(t, id)
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	must(t, ch.Qos(1, 0, false))
	taken, err := ch.Consume(id.Name+"-Q", "", false, false, false, false, amqp.Table{"x-priority": int32(3000)})
	must(t, err)
	l := connected(t, shared, id)
	rabbit.LookForTokensFirst(l, time.Millisecond) // then it will not for a while
	won := untilHeld(t, l)
	eventually(t, "it has begun to wait", func() bool { // beside the holder, which has its token in hand
		_, consumers := counted(t, id.Name+"-Q")
		return consumers == 3
	})
	must(t, h.Release(within(t)))
	must(t, holder.Close())
	<-taken
	must(t, wonBy(t, won).Release(within(t)))
}

func TestReplicatedLockIsSeenAndAsked(t *testing.T) {
	t.Parallel()
	id := replicated(t, 2)
	i := inspector(t, at(shared.URL()), id)
	s := seen(t, i, "1 free, 2 free; 0 wait")
	l, h := startedIn(t, id)
	verbs := answering(t, l, says("holder", h.Slot()))
	eventually(t, "the holder is seen", func() bool {
		var err error
		s, err = i.Look(within(t))
		must(t, err)
		slot := s.Slots[h.Slot()-1]
		return slot.State == lock.SlotHeld && slot.Holder != nil && !slot.HasSuccessor && s.Waiting == 0
	})
	_, second := startedIn(t, id)
	won := untilHeld(t, connected(t, shared, id))
	eventually(t, "the waiter is seen", func() bool {
		s, err := i.Look(within(t))
		must(t, err)
		return s.Waiting == 1
	})
	must(t, second.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
	if _, err := i.Ask(within(t), h.Slot(), lock.AskStepDown); err != nil {
		t.Errorf("it is not asked: %v", err)
	}
	if all := verbs(); len(all) == 0 || all[len(all)-1] != lock.AskStepDown {
		t.Errorf("it is asked %v", all)
	}
	must(t, proven(within(t), h))
	must(t, h.Release(within(t)))
	if _, err := i.Ask(within(t), h.Slot(), lock.AskStepDown); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("without a holder: %v", err)
	}
}
