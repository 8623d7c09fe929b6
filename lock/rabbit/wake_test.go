package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// untilWoken has a waiter that stands in line wait for less time than it takes until it looks by itself, a minute.
func untilWoken(t *testing.T, w lock.Lock) <-chan error {
	t.Helper()
	return inBackground(t, func(ctx context.Context) error { return w.Wait(ctx, time.Hour) })
}

// inBackground returns what a function returns that is called meanwhile, and given up when the test ends.
func inBackground(t *testing.T, call func(context.Context) error) <-chan error {
	t.Helper()
	returned := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { returned <- call(ctx) })
	return returned
}

// A slot beyond a gap is a leftover, and of use to nobody.
func TestWokenWaiterDoesNotObtainALeftover(t *testing.T) {
	t.Parallel()
	for _, slot := range []int{2, 2000} { // which are probed in one batch, and in two
		t.Run(fmt.Sprint(slot), func(t *testing.T) {
			t.Parallel()
			leftoverIsNotObtained(t, slot)
		})
	}
}

func leftoverIsNotObtained(t *testing.T, slot int) {
	t.Helper()
	id := fresh(lock.Semaphore)
	queue := fmt.Sprintf("%s-%d", id.Name, slot)
	w := connected(t, shared, id)
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrAbsent) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	waited := make(chan error, 1)
	go func() { // it may look by itself between two calls
		for {
			_ = w.Wait(ctx, patience)
			if ctx.Err() != nil {
				waited <- nil
				return
			}
			if h, err := w.Acquire(ctx); ctx.Err() == nil && !errors.Is(err, lock.ErrAbsent) {
				waited <- fmt.Errorf("a woken waiter gets %v, %v", h, err)
				return
			}
		}
	}()
	awaitPlaces(t, id, 1)
	declare(t, shared.URL(), queue+"-A")
	t.Cleanup(func() { must(t, shared.DeleteQueue(within(t), "/", queue+"-A")) })
	for range 3 {
		publish(t, id.Name+"-W", amqp.Publishing{UserId: "guest", Headers: amqp.Table{"slot": int32(slot)}})
	}
	succeeds(t, "the end of the calls", func() error {
		q, err := batonQueue(t, id)
		if err == nil && q.Messages > 0 {
			err = errors.New("there are some")
		}
		return err
	})
	cancel()
	must(t, <-waited)
	if _, found, err := shared.Queue(within(t), "/", queue+"-T"); found || err != nil {
		t.Errorf("the leftover has a ledger: %t, %v", found, err)
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

// A successor that has lost its place among the batons, and pauses before it takes
// part again, has nothing to pass on when it starts. It calls when it ends.
func TestHolderWithoutAPlaceWakesTheNextWaiter(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	w := id.Name + "-W"
	declare(t, shared.URL(), w) // not one of ours, so that taking part fails
	next := connected(t, shared, id)
	if _, err := next.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	first := untilWoken(t, next)
	awaitSuccessor(t, id)
	must(t, h.Release(within(t)))
	must(t, <-first)
	h, err := next.Acquire(within(t))
	must(t, err)
	start(t, h)
	must(t, shared.DeleteQueue(within(t), "/", w))
	second := waiting(t, id)
	awaitPlaces(t, id, 1)
	must(t, h.Release(within(t)))
	must(t, next.Close())
	must(t, <-second)
}

// The broker logs every claim that it turns down as an error, and every refused question.
func TestSuccessorLooksWithoutAClaim(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	holding(t, id, long)
	p := newTap(t)
	cfg := at(p.url())
	cfg.Heartbeat = time.Second // it looks twice a second
	l := refused(t, cfg, id)
	untilWoken(t, l)
	awaitBaton(t, id)
	before := p.sum()
	eventually(t, "some looks", func() bool { return p.sum()["basic.publish"] > before["basic.publish"]+2 })
	if got := p.sum().minus(before); got["queue.declare"]+got["channel.open"]+got["channel.close"] > 0 {
		t.Errorf("some looks cost %v", got)
	}
}

// Locks of several kinds and one name wake each other's waiters.
func TestBatonForAnotherLocksSlotReachesWhoCanUseIt(t *testing.T) {
	semaphore := fresh(lock.Semaphore)
	resize(t, shared, semaphore, 2)
	holding(t, semaphore, long)
	_, second := holding(t, semaphore, long)
	if second.Slot() != 2 {
		t.Fatalf("slot %d", second.Slot())
	}
	waiting := func(kind lock.Kind, places int) (lock.Lock, <-chan error) {
		l := connected(t, shared, lock.ID{Kind: kind, Name: semaphore.Name})
		if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(l)
		woken := untilWoken(t, l)
		awaitPlaces(t, semaphore, places)
		return l, woken
	}
	_, first := waiting(lock.PersistentMutex, 1) // is the successor for slot 1
	_, inLine := waiting(lock.Mutex, 2)
	l, woken := waiting(lock.Semaphore, 4) // is the successor for slot 2, and takes what nobody wants
	waiting(lock.Semaphore, 5)             // is in line behind one that cannot have slot 2
	must(t, second.Release(within(t)))
	must(t, <-woken)
	h, err := l.Acquire(within(t))
	must(t, err)
	if h.Slot() != 2 {
		t.Errorf("slot %d", h.Slot())
	}
	rabbit.TakeBAfter(h, 0)
	must(t, h.Ready(within(t)))
	awaitConsumer(t, semaphore.Name+"-2-T")
	for _, others := range []<-chan error{first, inLine} {
		select {
		case err := <-others:
			t.Errorf("one that cannot use the slot was woken as well: %v", err)
		default:
		}
	}
}

// From RabbitMQ 4.0 on a vhost can make every queue a quorum queue that does not say
// what it is, and that discards what has come back 20 times.
func TestEveryQueueSaysThatItIsClassic(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	holding(t, id, long)
	waiting(t, id)
	awaitSuccessor(t, id)
	awaitBaton(t, id)
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

// The administrator sees no line, and calls nobody; the waiter has looked before, and becomes the successor for another
// slot. It looks at the others once more, and behind the last one: at eight at once, so that nine are more.
func TestSlotThatIsAddedBeforeAWaiterCanBeCalledIsFound(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 9} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			id := fresh(lock.Semaphore)
			resize(t, shared, id, slots)
			var holders []lock.Held
			for range slots {
				_, h := holder(t, shared, id)
				holders = append(holders, h)
			}
			cfg := at(shared.URL())
			cfg.Heartbeat = long // by which it would find the slot in time
			l := refused(t, cfg, id)
			for _, h := range holders {
				must(t, h.Ready(within(t)))
				eventually(t, "the slot may have a successor", func() bool {
					q, _, err := shared.Queue(within(t), "/", fmt.Sprintf("%s-%d-T", id.Name, h.Slot()))
					must(t, err)
					return q.Consumers == 0
				})
			}
			resize(t, shared, id, slots+1)
			must(t, l.Wait(within(t), time.Millisecond))
			next, err := l.Acquire(within(t))
			must(t, err)
			if next.Slot() != slots+1 {
				t.Errorf("it has slot %d", next.Slot())
			}
		})
	}
}
