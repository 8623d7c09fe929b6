package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// long is a lease that no test waits for: 2 min.
const long = time.Minute

// holding returns a contender whose command has run for a while: it has B, and has let
// the next one read.
func holding(t *testing.T, id lock.ID, heartbeat time.Duration) (lock.Lock, lock.Held) {
	t.Helper()
	l, h := claimed(t, id, heartbeat)
	start(t, h)
	return l, h
}

// start has the command of a holder start, and run for a while.
func start(t *testing.T, h lock.Held) {
	t.Helper()
	rabbit.TakeBAfter(h, 0)
	must(t, h.Ready(within(t)))
	awaitB(t, h)
}

// awaitB waits until the holder has B and has let the next one read, where
// there is no successor.
func awaitB(t *testing.T, h lock.Held) {
	t.Helper()
	b, ledger := rabbit.Queues(h)
	awaitConsumer(t, b)
	eventually(t, "the ledger is given back", func() bool {
		q, _, err := shared.Queue(within(t), "/", ledger)
		must(t, err)
		return q.Consumers == 0 && q.Unacked == 0
	})
}

// started returns a contender whose command has just started, and which keeps the
// reader's place.
func started(t *testing.T, id lock.ID, heartbeat time.Duration) (lock.Lock, lock.Held) {
	t.Helper()
	l, h := claimed(t, id, heartbeat)
	rabbit.TakeBAfter(h, time.Hour)
	must(t, h.Ready(within(t)))
	return l, h
}

// holdingAs is holding for another configuration.
func holdingAs(t *testing.T, cfg rabbit.Config, id lock.ID) lock.Held {
	t.Helper()
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	start(t, h)
	return h
}

// claimed returns a contender with a slot whose command may not start yet.
func claimed(t *testing.T, id lock.ID, heartbeat time.Duration) (lock.Lock, lock.Held) {
	t.Helper()
	cfg := at(shared.URL())
	cfg.Heartbeat = heartbeat
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	var h lock.Held
	succeeds(t, "the slot", func() (err error) {
		if h, err = l.Acquire(within(t)); errors.Is(err, lock.ErrUnreachable) { // 541, as 4.3 says now and then
			err = errors.Join(err, l.Connect(within(t)))
		}
		return err
	})
	return l, h
}

func succeeds(t *testing.T, what string, try func() error) {
	t.Helper()
	err := try()
	for end := time.Now().Add(patience); err != nil; err = try() {
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// untilReady returns what Ready returns. One that is given up may cut the connection, so it goes on until the test ends.
func untilReady(t *testing.T, h lock.Held) <-chan error {
	t.Helper()
	return inBackground(t, h.Ready)
}

// waits makes sure that the command may not start yet, and returns what tells that it may.
func waits(t *testing.T, h lock.Held) (ready <-chan error) {
	t.Helper()
	ready = untilReady(t, h)
	waitsStill(t, ready)
	return ready
}

// vanish ends a holder as its death does: without a record.
func vanish(t *testing.T, l lock.Lock) {
	t.Helper()
	must(t, l.Close())
}

func publish(t *testing.T, queue string, message amqp.Publishing) {
	t.Helper()
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	must(t, ch.Confirm(false))
	confirm, err := ch.PublishWithDeferredConfirm("", queue, false, false, message)
	must(t, err)
	if ok, err := confirm.WaitContext(within(t)); err != nil || !ok {
		t.Fatalf("publish to %q: %v, %v", queue, ok, err)
	}
}

func onChannel(t *testing.T, f func(*amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	must(t, f(ch))
}

func TestSuccessorOfAVanishedHolderWaitsForItsWill(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	will, term := h.Handover().Will, h.Term()
	vanish(t, l)
	_, next := claimed(t, id, long)
	done := make(chan error, 1)
	go func() { done <- next.Ready(within(t)) }()
	waitsStill(t, done)
	must(t, rabbit.ExecuteWill(within(t), will))
	if err := <-done; err != nil || next.Term() <= term {
		t.Errorf("Ready %v, term %d after %d", err, next.Term(), term)
	}
}

func TestWillTriesTheBrokersInTurn(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	cfg := at("amqp://guest:guest@127.0.0.1:1", shared.URL())
	cfg.Heartbeat = long
	l := backend(t, cfg).Lock(id)
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	vanish(t, l)
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	_, next := claimed(t, id, long)
	must(t, next.Ready(within(t)))
}

func TestWillOfAnEarlierTermHarmsNothing(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	first, h := holding(t, id, long)
	old := h.Handover().Will
	must(t, h.Release(within(t)))
	must(t, first.Close())
	second, _ := holding(t, id, long)
	must(t, rabbit.ExecuteWill(within(t), old))
	vanish(t, second)
	_, third := claimed(t, id, long)
	waits(t, third)
}

func TestEmptyLedgerMeansUnknown(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueuePurge(id.Name+"-1-T", false)
		return err
	})
	_, next := claimed(t, id, long)
	waits(t, next)
}

func TestJunkInTheLedgerHarmsNothing(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	for range 3 {
		publish(t, id.Name+"-1-T", amqp.Publishing{Body: []byte("junk")})
	}
	must(t, h.Release(within(t)))
	must(t, l.Close())
	_, next := holding(t, id, long)
	if next.Term() <= h.Term() {
		t.Errorf("term %d after %d", next.Term(), h.Term())
	}
}

// A record that does not say how long its holder may live says nothing.
func TestRecordWithoutADelayIsWaitedFor(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	publish(t, id.Name+"-1-T", amqp.Publishing{UserId: "guest", Headers: amqp.Table{
		"content": fmt.Sprintf(`{"record": "held", "term": %d}`, h.Term()+1),
	}})
	_, next := claimed(t, id, long)
	waits(t, next)
}

// The record of the last holder is in somebody else's hand when the successor reads the
// ledger: it tells of a longer delay, or that its holder lives.
func TestRecordThatBecomesKnownLateCounts(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, _ := holding(t, id, long)
	vanish(t, l)
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	if _, found, err := ch.Get(id.Name+"-1-T", false); err != nil || !found {
		t.Fatalf("no record: %v", err)
	}
	_, next := claimed(t, id, time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second) // twice its own lease
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- next.Ready(ctx) }()
	must(t, conn.Close())
	if err := <-ready; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrFull) {
		t.Errorf("Ready returned %v", err)
	}
}

func TestDeletedLedgerIsMadeAgainWhileTheSlotIsHeld(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(id.Name+"-1-T", false, false, false)
		return err
	})
	must(t, proven(within(t), h))
	vanish(t, l)
	_, next := claimed(t, id, long)
	waits(t, next)
}

func TestTermsGrowThoughTheLedgerWasDeleted(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(id.Name+"-1-T", false, false, false)
		return err
	})
	_, next := holding(t, id, long)
	if next.Term() <= h.Term() {
		t.Errorf("term %d after %d", next.Term(), h.Term())
	}
}

// cut closes the connections of the contender with the name, as an operator does.
func cut(t *testing.T, id lock.ID) {
	t.Helper()
	n, err := shared.CloseConnections(within(t), " "+id.Name+" @")
	if err != nil || n == 0 {
		t.Fatalf("%d connections closed, %v", n, err)
	}
}

func TestClosedConnectionIsNoLoss(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	term := h.Term()
	for range 3 {
		lost := h.Lost()
		cut(t, id)
		select {
		case <-lost:
		case <-time.After(patience):
			t.Fatal("the holder was not told")
		}
		if err := h.Cause(); errors.Is(err, lock.ErrLost) {
			t.Fatalf("that is no proof of a loss: %v", err)
		}
		succeeds(t, "verification", func() error { return proven(within(t), h) })
		if h.Term() != term || h.Cause() != nil {
			t.Errorf("term %d after %d, cause %v", h.Term(), term, h.Cause())
		}
	}
	must(t, h.Release(within(t)))
	if left := queues(t, shared, id); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestNewcomerThatWaitsGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	lost := h.Lost()
	cut(t, id)
	<-lost
	_, newcomer := claimed(t, id, long)
	ready := make(chan error, 1)
	go func() {
		err := newcomer.Ready(within(t))
		ready <- errors.Join(err, newcomer.Release(within(t)))
	}()
	succeeds(t, "verification", func() error { return proven(within(t), h) })
	if err := <-ready; !errors.Is(err, lock.ErrFull) {
		t.Errorf("the newcomer's Ready: %v", err)
	}
}

// A newcomer that gives the slot back does not wake others: with so many of them, one would
// always be faster than the holder.
func TestHolderGetsItsSlotBackThoughManyWait(t *testing.T) {
	const newcomers = 60
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range newcomers {
		w := contender(t, shared, id)
		// So many at once can keep a busy machine from answering each in time.
		succeeds(t, "the connection", func() error { return w.Connect(within(t)) })
		all.Go(func() {
			for ctx.Err() == nil {
				next, err := w.Acquire(ctx)
				if err != nil {
					_ = w.Wait(ctx, time.Hour)
					continue
				}
				if err := next.Ready(ctx); err == nil {
					t.Error("a newcomer may start its command")
				}
				_ = next.Release(context.WithoutCancel(ctx))
			}
		})
	}
	for range 3 {
		lost := h.Lost()
		rabbit.CutConnection(h)
		<-lost
		must(t, proven(within(t), h))
	}
}

// The clock of a virtual machine can stand still with it: its holder takes its deadline for one that is to come.
func TestWhoWasReplacedDoesNotReclaim(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	lost := h.Lost()
	cut(t, id)
	<-lost
	_, newcomer := claimed(t, id, long)
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will)) // as if its deadline had passed
	must(t, newcomer.Ready(within(t)))
	if err := proven(within(t), h); !errors.Is(err, lock.ErrOver) {
		t.Errorf("Verify: %v", err)
	}
	must(t, newcomer.Verify(within(t)))
	must(t, newcomer.Cause())
}

// To wait for a node that is silent takes longer than the lease; the one that
// has reset the connection answers.
func TestSlotIsReclaimedThoughAnotherNodeIsSilent(t *testing.T) {
	id := fresh(lock.Mutex)
	cfg := at(shared.URL(), speaker(t, func(net.Conn) {}))
	cfg.Heartbeat = long
	h := holdingAs(t, cfg, id)
	for range 3 {
		lost := h.Lost()
		cut(t, id)
		<-lost
		sooner, cancel := context.WithTimeout(within(t), 4*time.Second) // than who asks the silent one first, and waits 5 s
		must(t, proven(sooner, h))
		cancel()
	}
	must(t, h.Release(within(t)))
}

// secondHolder returns the second holder of a lock, whose ledger so is older than its
// holding.
func secondHolder(t *testing.T) (lock.Lock, lock.Held) {
	t.Helper()
	id := fresh(lock.Mutex)
	first, h := holder(t, shared, id)
	must(t, h.Ready(within(t))) // makes the ledger
	must(t, h.Release(within(t)))
	must(t, first.Close())
	l, h := holder(t, shared, id)
	must(t, h.Ready(within(t)))
	return l, h
}

// The broker is gone for good, and a reclaim has tried to connect: the slot is
// given up all the same.
func givenUpWithoutABroker(t *testing.T, l lock.Lock, h lock.Held) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := proven(ctx, h); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("Verify without a broker: %v", err)
	}
	if err := h.Release(within(t)); err == nil {
		t.Error("a release was confirmed by nobody")
	}
	_ = l.Close() // whatever it says, it returns
}
