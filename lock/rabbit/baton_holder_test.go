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

// renewing starts a waiter that, once it is the successor, renews its baton with every look.
func renewing(t *testing.T, url string, id lock.ID) (lock.Lock, <-chan error) {
	t.Helper()
	cfg := at(url)
	cfg.Heartbeat = time.Second // it looks twice a second
	l := refused(t, cfg, id)
	rabbit.RenewBatons(l, time.Millisecond)
	return l, untilWoken(t, l)
}

func TestLeftoverBatonsAreCleanedUpByWaiters(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	holding(t, id, long)
	waiting(t, id)
	awaitBaton(t, id)
	waiting(t, id)
	for range 3 {
		publish(t, id.Name+"-W", amqp.Publishing{Body: []byte("junk")})
	}
	succeeds(t, "the end of the leftovers", func() error {
		q, err := batonQueue(t, id)
		if err == nil && q.Messages > 1 {
			err = errors.New("there are more than that of the successor")
		}
		return err
	})
}

func TestRenewedBatonWakesNobodyAndIsPassedOn(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	p := newTap(t)
	next, first := renewing(t, p.url(), id)
	awaitBaton(t, id)
	third, second := renewing(t, shared.URL(), id)
	awaitPlaces(t, id, 2)
	before := p.sum()["basic.nack"]
	eventually(t, "three renewals", func() bool { return p.sum()["basic.nack"] >= before+3 })
	select {
	case err := <-second:
		t.Fatalf("a waiter was woken: %v", err)
	default:
	}
	must(t, h.Release(within(t)))
	must(t, <-first)
	h, err := next.Acquire(within(t))
	must(t, err)
	rabbit.TakeBAfter(h, 0)
	must(t, h.Ready(within(t)))
	awaitSuccessor(t, id) // the other one, and the baton is its own
	awaitBaton(t, id)
	must(t, h.Release(within(t)))
	must(t, <-second)
	_, err = third.Acquire(within(t))
	must(t, err)
}

func TestSuccessorWhoseBatonIsStolenMakesAnother(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	holding(t, id, long)
	onChannel(t, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(id.Name+"-W", true, false, false, false, amqp.Table{
			"x-queue-type": "classic", "x-max-length": int32(100), "x-overflow": "drop-head"}); err != nil {
			return err
		}
		stolen, err := ch.Consume(id.Name+"-W", "thief", true, false, false, false,
			amqp.Table{"x-priority": int32(2000)})
		if err != nil {
			return err
		}
		renewing(t, shared.URL(), id)
		select {
		case <-stolen:
		case <-time.After(patience):
			t.Fatal("no baton was made")
		}
		return nil // which ends the thief
	})
	awaitBaton(t, id)
}

// The place in the line and the reader's place go with the channel on which a
// delivery has got too old (consumer_timeout).
func TestSuccessorWhoseChannelsAreClosedIsStillServed(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	w := connected(t, shared, id)
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(w)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	served := make(chan error, 1)
	go func() {
		for {
			err := w.Wait(ctx, time.Hour)
			if errors.Is(err, lock.ErrUnreachable) { // amqp091-go ends it because of what comes after a channel's end
				err = w.Connect(ctx)
			}
			if err != nil {
				served <- err
				return
			}
			if h, err := w.Acquire(ctx); err == nil {
				served <- errors.Join(h.Ready(ctx), h.Release(ctx))
				return
			}
			rabbit.LookSeldom(w)
		}
	}()
	for range 3 {
		for len(legacy(t, w)) == 0 { // it is not next yet, or not any more
		}
		succeeds(t, "the end of its channels", func() error { return rabbit.CloseChannels(within(t), w) })
	}
	awaitSuccessor(t, id)
	must(t, h.Release(within(t)))
	must(t, <-served)
}
