package rabbit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

func TestLeftoverBatonsAreCleanedUpByWaiters(t *testing.T) {
	id := fresh(lock.Mutex)
	holding(t, id, long)
	awaitBaton(t, id)
	w := connected(t, shared, id)
	for range 3 {
		publish(t, id.Name+"-W", amqp.Publishing{Body: []byte("junk")})
	}
	succeeds(t, "the end of the leftovers", func() error {
		if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = w.Wait(ctx, time.Hour)
		q, err := batonQueue(t, id)
		if err == nil && q.Messages > 1 {
			err = errors.New("there are more than the holder's")
		}
		return err
	})
}

func TestRenewedBatonWakesNobodyAndIsStillThere(t *testing.T) {
	id := fresh(lock.Mutex)
	l := connected(t, shared, id)
	rabbit.RenewBatons(l, 20*time.Millisecond)
	h, err := l.Acquire(within(t))
	must(t, err)
	awaitBaton(t, id)
	w := connected(t, shared, id)
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(w)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := w.Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a waiter was woken: %v", err)
	}
	must(t, h.Release(within(t)))
	must(t, w.Wait(within(t), time.Hour))
}

// A holder that got its baton as a waiter renews it too.
func TestRenewalOfAnInheritedBatonWakesNobody(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	awaitBaton(t, id)
	next := connected(t, shared, id)
	rabbit.RenewBatons(next, 20*time.Millisecond)
	if _, err := next.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(next)
	must(t, h.Release(within(t)))
	must(t, next.Wait(within(t), time.Hour))
	inherited, err := next.Acquire(within(t))
	must(t, err)
	woken := waiting(t, id)
	time.Sleep(300 * time.Millisecond) // renewals
	select {
	case err := <-woken:
		t.Fatalf("a waiter was woken: %v", err)
	default:
	}
	must(t, inherited.Release(within(t)))
	must(t, <-woken)
}

func TestHolderWhoseBatonIsStolenMakesAnother(t *testing.T) {
	id := fresh(lock.Mutex)
	onChannel(t, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(id.Name+"-W", true, false, false, false,
			amqp.Table{"x-max-length": int32(100), "x-overflow": "drop-head"}); err != nil {
			return err
		}
		stolen, err := ch.Consume(id.Name+"-W", "thief", true, false, false, false,
			amqp.Table{"x-priority": int32(2000)})
		if err != nil {
			return err
		}
		holding(t, id, long)
		select {
		case <-stolen:
		case <-time.After(patience):
			t.Fatal("no baton was made")
		}
		return nil // which ends the thief
	})
	awaitBaton(t, id)
}

// A newcomer's place among the batons may catch one that is for a waiter.
func TestBatonThatANewHolderCaughtIsReplaced(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 2)
	holding(t, id, long)
	awaitBaton(t, id)
	publish(t, id.Name+"-W", amqp.Publishing{Headers: amqp.Table{"slot": int32(7)}})
	holding(t, id, long)
	if err := <-waiting(t, id); err != nil {
		t.Errorf("nobody is woken: %v", err)
	}
}
