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
	_, err := shared.Eval(within(t),
		fmt.Sprintf(`ok = rabbit_vhost_limit:parse_set(<<"%s">>, <<"{\"max-queues\": 0}">>, <<"operator">>).`, vhost))
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
	_, err = ch.QueueDeclare(id.Name+"-1-A", true, false, false, false,
		amqp.Table{"x-max-length": int32(0), "x-overflow": "drop-head"})
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
	eventually(t, "some attempts to take part again, after which the pauses are long",
		func() bool { return p.sum()["queue.declare"] >= before+6 })
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

// The broker logs every claim that it turns down as an error.
func TestWaiterOfAMutexLooksWithoutAClaim(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holder(t, shared, id)
	p := newTap(t)
	l := backend(t, at(p.url())).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	_, err := l.Acquire(within(t))
	if !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(l)
	p.settled(t, 2)
	before := p.sum()
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	if got := p.sum().minus(before); got["queue.declare"] > 0 || got["basic.publish"] != 1 {
		t.Errorf("a look cost %v", got)
	}
	must(t, h.Release(within(t)))
	h, err = l.Acquire(within(t))
	must(t, err)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	p.close()
}

// Locks of several kinds and one name wake each other's waiters.
func TestBatonForAnotherLocksSlotReachesWhoCanUseIt(t *testing.T) {
	semaphore := fresh(lock.Semaphore)
	resize(t, shared, semaphore, 2)
	holder(t, shared, semaphore)
	_, second := holder(t, shared, semaphore)
	if second.Slot() != 2 {
		t.Fatalf("slot %d", second.Slot())
	}
	ctx, cancel := context.WithCancel(within(t))
	waiting := func(kind lock.Kind, places int) (lock.Lock, <-chan error) {
		l := connected(t, shared, lock.ID{Kind: kind, Name: semaphore.Name})
		if _, err := l.Acquire(ctx); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(l)
		woken := make(chan error, 1)
		go func() { woken <- l.Wait(ctx, time.Hour) }()
		awaitPlaces(t, semaphore, places)
		return l, woken
	}
	awaitPlaces(t, semaphore, 2)
	_, first := waiting(lock.PersistentMutex, 3)
	_, next := waiting(lock.Mutex, 4)
	l, woken := waiting(lock.Semaphore, 5)
	must(t, second.Release(ctx))
	must(t, <-woken)
	h, err := l.Acquire(ctx)
	must(t, err)
	if h.Slot() != 2 {
		t.Errorf("slot %d", h.Slot())
	}
	cancel()
	if errs := []error{<-first, <-next}; !errors.Is(errs[0], context.Canceled) ||
		!errors.Is(errs[1], context.Canceled) {
		t.Errorf("the others were woken as well: %v", errs)
	}
}

// From RabbitMQ 4.0 on a vhost can make every queue a quorum queue that does not say
// what it is, and that discards what has come back 20 times.
func TestEveryQueueSaysThatItIsClassic(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	holding(t, id, long)
	awaitPlaces(t, id, 1)
	types, err := shared.Eval(within(t), fmt.Sprintf(`
		[begin {resource, _, queue, Name} = proplists:get_value(name, I),
		   case rabbit_misc:table_lookup(proplists:get_value(arguments, I), <<"x-queue-type">>) of
		     {longstr, <<"classic">>} -> classic; _ -> Name end end
		 || I <- rabbit_amqqueue:info_all(<<"/">>, [name, arguments]),
		    {resource, _, queue, <<%q, "-", _/binary>>} <- [proplists:get_value(name, I)]]`, id.Name))
	must(t, err)
	if types != "[classic,classic,classic,classic]" {
		t.Errorf("A, B, T and W: %s", types)
	}
}
