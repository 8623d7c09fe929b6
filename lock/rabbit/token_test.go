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
)

// tokens returns a token semaphore of so many slots, until the test ends.
func tokens(t *testing.T, slots int) lock.ID {
	t.Helper()
	id := fresh(lock.TokenSemaphore)
	resize(t, shared, id, slots)
	t.Cleanup(func() { resize(t, shared, id, 0) })
	return id
}

// awaitTokens waits until there are so many tokens, of which so many are kept.
func awaitTokens(t *testing.T, id lock.ID, all, kept int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d tokens, %d of them kept", all, kept), func() bool {
		q, _, err := shared.Queue(within(t), "/", id.Name+"-K")
		must(t, err)
		return q.Messages == all && q.Unacked == kept
	})
}

// double publishes another token of a slot, as a stranger may.
func double(t *testing.T, id lock.ID, slot int) {
	t.Helper()
	publish(t, id.Name+"-K", amqp.Publishing{Headers: amqp.Table{"slot": int32(slot)}})
}

// untilHeld has a contender wait until a command may start in a slot.
func untilHeld(t *testing.T, l lock.Lock) <-chan lock.Held {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	won, done := make(chan lock.Held, 1), make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			h, err := l.Acquire(ctx)
			if err == nil && h.Ready(ctx) == nil {
				won <- h
				return
			}
			if err == nil {
				_ = h.Release(ctx)
			} else if l.Wait(ctx, 10*time.Millisecond) != nil {
				_ = l.Connect(ctx)
			}
		}
	}()
	return won
}

func wonBy(t *testing.T, won <-chan lock.Held) lock.Held {
	t.Helper()
	select {
	case h := <-won:
		return h
	case <-within(t).Done():
		t.Fatal("no slot was won")
		return nil
	}
}

func TestOnlyWhoHasASlotKeepsAToken(t *testing.T) {
	t.Parallel()
	id := tokens(t, 2)
	_, h := holding(t, id, long)
	awaitTokens(t, id, 2, 1)
	_, other := holding(t, id, long)
	won := untilHeld(t, connected(t, shared, id))
	awaitConsumer(t, id.Name+"-K")
	awaitTokens(t, id, 2, 2)
	must(t, h.Release(within(t)))
	third := wonBy(t, won)
	if third.Slot() != h.Slot() {
		t.Errorf("slot %d was won, not %d", third.Slot(), h.Slot())
	}
	must(t, third.Release(within(t)))
	must(t, other.Release(within(t)))
	awaitTokens(t, id, 2, 0)
}

func TestWaiterOfAHigherPriorityIsHandedTheToken(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	low := untilHeld(t, connected(t, shared, id))
	eventually(t, "the first waits", func() bool { return consumersOfTokens(t, id) == 1 })
	cfg := at(shared.URL())
	cfg.Contention.Priority = 5
	urgent := backend(t, cfg).Lock(id)
	t.Cleanup(func() { urgent.Close() })
	must(t, urgent.Connect(within(t)))
	high := untilHeld(t, urgent)
	eventually(t, "the second waits", func() bool { return consumersOfTokens(t, id) == 2 })
	must(t, h.Release(within(t)))
	h = wonBy(t, high)
	must(t, h.Release(within(t)))
	must(t, wonBy(t, low).Release(within(t)))
}

func consumersOfTokens(t *testing.T, id lock.ID) int {
	t.Helper()
	q, _, err := shared.Queue(within(t), "/", id.Name+"-K")
	must(t, err)
	return q.Consumers
}

// A stranger has published it once more.
func TestDoubledTokenMakesNobodyASecondHolder(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	l := connected(t, shared, id)
	rabbit.RenewTokens(l, time.Nanosecond)
	h, err := l.Acquire(within(t))
	must(t, err)
	start(t, h)
	won := untilHeld(t, connected(t, shared, id))
	double(t, id, 1)
	awaitTokens(t, id, 2, 2) // the waiter has it
	eventually(t, "the second token is removed", func() bool {
		rabbit.TendToken(h)
		q, _, err := shared.Queue(within(t), "/", id.Name+"-K")
		must(t, err)
		return q.Messages == 1
	})
	must(t, proven(within(t), h))
	select {
	case second := <-won:
		t.Fatalf("slot %d is held twice", second.Slot())
	default:
	}
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

func TestResizeRemovesTokensThatAreTooMany(t *testing.T) {
	t.Parallel()
	id := tokens(t, 2)
	double(t, id, 1)
	double(t, id, 7)
	publish(t, id.Name+"-K", amqp.Publishing{Body: []byte("junk")})
	awaitTokens(t, id, 5, 0)
	resize(t, shared, id, 2)
	awaitTokens(t, id, 2, 0)
}

func TestMessageThatIsNoTokenIsRemovedByWhoDrawsIt(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	publish(t, id.Name+"-K", amqp.Publishing{Body: []byte("junk")})
	double(t, id, 9)
	won := untilHeld(t, connected(t, shared, id))
	awaitTokens(t, id, 1, 1)
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

func TestResizeMakesLostTokensAgain(t *testing.T) {
	t.Parallel()
	id := tokens(t, 3)
	_, h := holding(t, id, long)
	must(t, shared.PurgeQueue(within(t), "/", id.Name+"-K"))
	awaitTokens(t, id, 1, 1)
	resize(t, shared, id, 3)
	awaitTokens(t, id, 3, 1)
	must(t, h.Release(within(t)))
}

func TestWaiterMakesLostTokensAgain(t *testing.T) {
	t.Parallel()
	id := tokens(t, 2)
	_, h := holding(t, id, long)
	must(t, shared.PurgeQueue(within(t), "/", id.Name+"-K"))
	l := connected(t, shared, id)
	rabbit.LookForTokens(l, 50*time.Millisecond)
	other := wonBy(t, untilHeld(t, l))
	if other.Slot() == h.Slot() {
		t.Fatalf("slot %d is held twice", h.Slot())
	}
	must(t, other.Release(within(t)))
	must(t, h.Release(within(t)))
	awaitTokens(t, id, 2, 0)
}

// Without its queue nobody can be handed anything.
func TestTokensAreThereAgainAfterTheirQueueWasDeleted(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	l := connected(t, shared, id)
	rabbit.LookForTokens(l, 50*time.Millisecond)
	won := untilHeld(t, l)
	awaitConsumer(t, id.Name+"-K")
	must(t, shared.DeleteQueue(within(t), "/", id.Name+"-K"))
	must(t, proven(within(t), h)) // that is no loss
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

// As a broker before 4.3 closes that of a delivery which is older than
// consumer_timeout.
func TestHolderTakesATokenBackWhoseChannelWasClosed(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	won := untilHeld(t, connected(t, shared, id))
	awaitConsumer(t, id.Name+"-K")
	for range 3 {
		must(t, rabbit.CloseToken(within(t), h))
		eventually(t, "the waiter waits again, and the token is kept", func() bool {
			must(t, proven(within(t), h))
			return rabbit.KeepsToken(h) && consumersOfTokens(t, id) == 1
		})
	}
	select {
	case second := <-won:
		t.Fatalf("slot %d is held twice", second.Slot())
	default:
	}
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

func TestRenewedTokensStayWithTheirHolders(t *testing.T) {
	t.Parallel()
	id := tokens(t, 2)
	var all []lock.Held
	for range 2 {
		l := connected(t, shared, id)
		rabbit.RenewTokens(l, time.Nanosecond) // with each verification
		h, err := l.Acquire(within(t))
		must(t, err)
		start(t, h)
		all = append(all, h)
	}
	won := untilHeld(t, connected(t, shared, id))
	for range 20 {
		for _, h := range all {
			must(t, h.Verify(within(t)))
		}
	}
	select {
	case third := <-won:
		t.Fatalf("slot %d is held twice", third.Slot())
	default:
	}
	for _, h := range all {
		must(t, h.Release(within(t)))
	}
	must(t, wonBy(t, won).Release(within(t)))
	awaitTokens(t, id, 2, 0)
}

func TestTokenComesBackToAHolderWhoseConnectionWasClosed(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	won := untilHeld(t, connected(t, shared, id))
	awaitConsumer(t, id.Name+"-K")
	for range 3 {
		rabbit.CutConnection(h)
		succeeds(t, "the slot", func() error { return proven(within(t), h) })
		eventually(t, "the token is kept by the holder alone", func() bool {
			must(t, proven(within(t), h))
			return rabbit.KeepsToken(h) && consumersOfTokens(t, id) == 1
		})
	}
	select {
	case second := <-won:
		t.Fatalf("slot %d is held twice", second.Slot())
	default:
	}
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

// Tokens have to be published, which an alarm may keep back.
func TestTokensAreCompleteAfterAnAlarm(t *testing.T) {
	id := tokens(t, 3)
	_, h := holding(t, id, long)
	raiseAlarm(t)
	resize(t, shared, id, 2)
	awaitTokens(t, id, 2, 1)
	a := backend(t, at(shared.URL())).Administrator(id)
	defer a.Close()
	_, after, err := a.Resize(within(t), 0, func(int) (int, error) { return 5, nil })
	if err != nil && !errors.Is(err, lock.ErrUnknown) || after != 5 {
		t.Errorf("under the alarm there are %d slots, %v", after, err)
	}
	must(t, shared.ClearMemoryAlarm(within(t)))
	resize(t, shared, id, 5)
	awaitTokens(t, id, 5, 1)
	must(t, h.Release(within(t)))
}

func TestWhoHasStoppedWaitingIsHandedNothing(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	stopped := connected(t, shared, id)
	ctx, cancel := context.WithCancel(within(t))
	waited := make(chan error, 1)
	go func() { waited <- stopped.Wait(ctx, time.Hour) }()
	eventually(t, "it waits", func() bool { return consumersOfTokens(t, id) == 1 })
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
	must(t, h.Release(within(t)))
	awaitTokens(t, id, 1, 0)
	_, h = holding(t, id, long)
	must(t, h.Release(within(t)))
}

// A slot whose last holder has to be waited for is of less use than a free one.
func TestFreeSlotIsPreferredToOneWithoutARelease(t *testing.T) {
	t.Parallel()
	id := tokens(t, 2)
	l, gone := holding(t, id, long)
	vanish(t, l)
	awaitTokens(t, id, 2, 0)
	_, h := holding(t, id, long)
	if h.Slot() == gone.Slot() {
		t.Errorf("slot %d was taken, which has no release", h.Slot())
	}
	must(t, h.Release(within(t)))
}

func TestTokensOutliveTheEndOfAWaiterThatHasOne(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	l, _ := holding(t, id, time.Second)
	vanish(t, l)
	first, h := claimed(t, id, time.Second) // it waits for the end of the lease
	second := backend(t, rabbit.Config{URLs: []string{shared.URL()}, Heartbeat: time.Second}).Lock(id)
	t.Cleanup(func() { second.Close() })
	must(t, second.Connect(within(t)))
	won := untilHeld(t, second)
	awaitConsumer(t, id.Name+"-K")
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if err := h.Ready(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("it did not wait: %v", err)
	}
	must(t, first.Close())
	must(t, wonBy(t, won).Release(within(t)))
}
