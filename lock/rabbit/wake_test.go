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

func TestLimitOnQueuesIsNotTakenForAHeldSlot(t *testing.T) {
	const vhost = "full"
	must(t, shared.AddVhost(within(t), vhost))
	must(t, shared.SetPermissions(within(t), "guest", vhost, ".*", ".*", ".*"))
	_, err := shared.Eval(within(t), fmt.Sprintf(`ok = rabbit_vhost_limit:parse_set(<<"%s">>, <<"{\"max-queues\": 0}">>, <<"operator">>).`, vhost))
	must(t, err)
	b := backend(t, at(shared.URLFor("guest", "guest", vhost)))
	l := b.Lock(fresh(lock.Mutex))
	must(t, l.Connect(within(t)))
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring: %v", err)
	}
	must(t, l.Close())
	a := b.Administrator(fresh(lock.Semaphore))
	if _, after, err := a.Resize(within(t), 1, func(int) (int, error) { return 3, nil }); err == nil || after != 0 {
		t.Errorf("creating: %d slots, %v", after, err)
	}
	must(t, a.Close())
}

// untilWoken has a waiter wait for less time than it takes until it looks by itself.
func untilWoken(t *testing.T, w lock.Lock) <-chan error {
	t.Helper()
	woken := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	t.Cleanup(cancel)
	go func() { woken <- w.Wait(ctx, time.Hour) }()
	return woken
}

// A slot beyond a gap is a leftover, and passed on to nobody.
func TestWokenWaiterDoesNotObtainALeftover(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 3)
	defer resize(t, shared, id, 0)
	held := map[int]lock.Held{}
	for range 3 {
		_, h := holder(t, shared, id)
		must(t, h.Ready(within(t)))
		held[h.Slot()] = h
	}
	w := connected(t, shared, id)
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(w)
	awaitBaton(t, id)
	must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-A"))
	must(t, held[3].Release(within(t)))
	must(t, w.Wait(within(t), time.Hour))
	if h, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("a woken waiter gets %v, %v", h, err)
	}
}

// An action that was broken off has made slots and told nobody; the one that
// finishes it does.
func TestWaitersAreToldOfSlotsThatWereThereBefore(t *testing.T) {
	id := fresh(lock.Semaphore)
	w := connected(t, shared, id)
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrAbsent) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(w)
	woken := untilWoken(t, w)
	awaitPlaces(t, id, 1)
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	_, err = ch.QueueDeclare(id.Name+"-1-A", true, false, false, false, amqp.Table{"x-max-length": int32(0), "x-overflow": "drop-head"})
	must(t, err)
	resize(t, shared, id, 1)
	defer resize(t, shared, id, 0)
	must(t, <-woken)
	_, err = w.Acquire(within(t))
	must(t, err)
}

// A holder that has lost its place among the batons, and pauses before it takes
// part again, wakes the next one all the same.
func TestHolderWithoutAPlaceWakesTheNextWaiter(t *testing.T) {
	id := fresh(lock.Mutex)
	p := newTap(t)
	l := backend(t, at(p.url())).Lock(id)
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	awaitBaton(t, id)
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	w := id.Name + "-W"
	// Not one of ours, so that taking part fails. The holder can be faster.
	succeeds(t, "a foreign queue in the place of W", func() error {
		ch, err := conn.Channel()
		must(t, err)
		if _, err = ch.QueueDelete(w, false, false, false); err == nil {
			_, err = ch.QueueDeclare(w, true, false, false, false, nil)
		}
		return err
	})
	before := p.sum()["queue.declare"]
	eventually(t, "some attempts to take part again, after which the pauses are long", func() bool { return p.sum()["queue.declare"] >= before+6 })
	_, err = ch.QueueDelete(w, false, false, false)
	must(t, err)
	next := connected(t, shared, id)
	if _, err := next.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(next)
	woken := untilWoken(t, next)
	awaitPlaces(t, id, 1)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	must(t, <-woken)
	_, err = next.Acquire(within(t))
	must(t, err)
	p.close()
}

func TestWaiterThatCouldNotLookAtAllSlotsLooksAgainSoon(t *testing.T) {
	l := connected(t, shared, fresh(lock.Semaphore))
	if d := rabbit.NextLook(l, 0); d < time.Hour {
		t.Errorf("who has seen all slots held looks again after %s already", d)
	}
	if d := rabbit.NextLook(l, 33); d > time.Minute {
		t.Errorf("who has seen some of the slots looks again only after %s", d)
	}
}
