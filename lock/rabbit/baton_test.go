package rabbit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/brokertest"
)

func TestWaiterIsWokenByTheEndOfAHolder(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, l lock.Lock, h lock.Held){
		"release": func(t *testing.T, _ lock.Lock, h lock.Held) { must(t, h.Release(within(t))) },
		"death and will": func(t *testing.T, l lock.Lock, h lock.Held) {
			vanish(t, l)
			must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
		},
	} {
		for state, hold := range map[string]func(*testing.T, lock.ID, time.Duration) (lock.Lock, lock.Held){
			"that runs": holding, "that has just begun": started,
		} {
			t.Run(name+" of one "+state, func(t *testing.T) {
				id := fresh(lock.Mutex)
				l, h := hold(t, id, long)
				woken := waiting(t, id)
				awaitPlaces(t, id, 1)
				end(t, l, h)
				if err := <-woken; err != nil {
					t.Errorf("the waiter was not woken: %v", err)
				}
			})
		}
	}
}

// Without a will, once what the holder ran has had the time to end.
func TestWaiterIsWokenAfterTheLeaseOfAVanishedHolder(t *testing.T) {
	t.Parallel()
	for state, hold := range map[string]func(*testing.T, lock.ID, time.Duration) (lock.Lock, lock.Held){
		"runs": holding, "has just begun": started,
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			id := fresh(lock.Mutex)
			l, h := hold(t, id, time.Second)
			cfg := at(shared.URL())
			cfg.Heartbeat = time.Second
			w := backend(t, cfg).Lock(id)
			t.Cleanup(func() { w.Close() })
			must(t, w.Connect(within(t)))
			if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
				t.Fatal(err)
			}
			ready := make(chan error, 1)
			ctx := within(t)
			go func() { ready <- awaitTurn(ctx, w) }()
			awaitPlaces(t, id, 1)
			vanished := time.Now()
			vanish(t, l)
			must(t, <-ready)
			if took := time.Since(vanished); took < h.Lease() {
				t.Errorf("started %s after the holder vanished, whose lease is %s", took, h.Lease())
			}
		})
	}
}

// awaitTurn waits until the contender's command may start.
func awaitTurn(ctx context.Context, w lock.Lock) error {
	for {
		if err := w.Wait(ctx, time.Hour); err != nil {
			return err
		}
		if h, err := w.Acquire(ctx); err == nil {
			return h.Ready(ctx)
		}
	}
}

// There is no successor while a command has just begun.
func TestWaiterIsWokenByTheEndOfAShortHolding(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	for range 5 {
		l, h := started(t, id, long)
		woken := waiting(t, id)
		must(t, h.Release(within(t)))
		must(t, l.Close())
		if err := <-woken; err != nil {
			t.Fatalf("the waiter was not woken: %v", err)
		}
	}
}

// waiting starts a waiter of a full lock, and returns what its Wait returns. It
// has looked in vain so often that it does not look by itself within the time of
// Wait.
func waiting(t *testing.T, id lock.ID) <-chan error {
	t.Helper()
	w := connected(t, shared, id)
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(w)
	var closing sync.WaitGroup
	t.Cleanup(closing.Wait)
	waited := untilWoken(t, w)
	woken := make(chan error, 1)
	closing.Go(func() {
		err := <-waited
		w.Close() // the place is not kept
		woken <- err
	})
	return woken
}

func TestWaiterIsWokenWhenTheLockIsMade(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Semaphore, lock.PersistentMutex} {
		id := fresh(kind)
		w := connected(t, shared, id)
		if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrAbsent) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(w)
		woken := untilWoken(t, w)
		awaitPlaces(t, id, 1)
		resize(t, shared, id, 1)
		must(t, <-woken)
		_, err := w.Acquire(within(t))
		must(t, err)
	}
}

// awaitBaton waits until the successor has its baton.
func awaitBaton(t *testing.T, id lock.ID) {
	t.Helper()
	succeeds(t, "the baton", func() error {
		q, err := batonQueue(t, id)
		if err == nil && q.Unacked == 0 {
			err = errors.New("nobody has one")
		}
		return err
	})
}

// waiters starts waiters of a full lock, one after the other, with these
// priorities. Each hands its number to the returned channel when it has obtained
// the slot, and keeps the slot until it is received from.
func waiters(t *testing.T, id lock.ID, priorities ...int) <-chan int {
	t.Helper()
	served := make(chan int)
	for n, priority := range priorities {
		cfg := at(shared.URL())
		cfg.Contention.Priority = priority
		w := backend(t, cfg).Lock(id)
		must(t, w.Connect(within(t)))
		t.Cleanup(func() { w.Close() })
		if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		if priority == 0 { // or it asks nobody to step back
			rabbit.LookSeldom(w)
		}
		ctx := within(t)
		go func() {
			for {
				if err := w.Wait(ctx, time.Hour); err != nil {
					return
				}
				if h, err := w.Acquire(ctx); err == nil {
					_ = h.Ready(ctx)
					served <- n
					_ = h.Release(ctx)
					return
				}
			}
		}()
		awaitPlaces(t, id, n+1)
	}
	awaitCalm(t, id)
	return served
}

// awaitCalm waits until there is one baton, that of the successor, and nobody asks for more.
func awaitCalm(t *testing.T, id lock.ID) {
	t.Helper()
	for calm := 0; calm < 10; {
		eventually(t, "one baton is left", func() bool {
			q, err := batonQueue(t, id)
			if err == nil && q.Unacked == 1 && q.Messages == 1 {
				calm++
				return true
			}
			calm = 0
			return false
		})
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitPlaces waits until so many take part in the batons: the successor, and who is in line.
func awaitPlaces(t *testing.T, id lock.ID, n int) {
	t.Helper()
	succeeds(t, "the consumers", func() error {
		q, err := batonQueue(t, id)
		if err == nil && q.Consumers != n {
			err = errors.New("not all are there")
		}
		return err
	})
}

func batonQueue(t *testing.T, id lock.ID) (brokertest.Queue, error) {
	t.Helper()
	q, found, err := shared.Queue(within(t), "/", id.Name+"-W")
	if err == nil && !found {
		err = errors.New("there is no queue of batons")
	}
	return q, err
}

func TestWaitersAreServedInTheOrderOfPriorityThenOfArrival(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	served := waiters(t, id, 0, 5, 0, lock.MaxPriority, 5)
	must(t, h.Release(within(t)))
	for i, want := range []int{3, 1, 4, 0, 2} {
		select {
		case got := <-served:
			if got != want {
				t.Errorf("served as number %d: waiter %d, want %d", i, got, want)
			}
		case <-time.After(patience):
			t.Fatal("nobody was served")
		}
	}
}

// Somebody takes the call that was for it.
func TestWhoHasSteppedBackLooksForItself(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	served := waiters(t, id, 0, 5) // the first has stepped back for the second
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	calls, err := ch.Consume(id.Name+"-W", "", true, false, false, false, amqp.Table{"x-priority": int32(5000)})
	must(t, err)
	must(t, h.Release(within(t)))
	select {
	case <-calls: // the second runs, and has left the reader's place
	case <-within(t).Done():
		t.Fatal("nobody was called")
	}
	awaitSuccessor(t, id)
	for range 2 {
		<-served
	}
}

// A contender that gives a slot back and wants it again finds the waiter before it that is
// next.
func TestWhoComesBackAtOnceDoesNotOvertakeTheWaiter(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	served := waiters(t, id, 0)
	must(t, h.Release(within(t)))
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring again at once: %v", err)
	}
	<-served
	succeeds(t, "the slot", func() error {
		_, err := l.Acquire(within(t))
		return err
	})
}

// What may happen to the queue of batons while all wait for one.
func TestWaiterIsWokenThoughTheBatonsWereTamperedWith(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(t *testing.T, queue string){
		"deleted": func(t *testing.T, queue string) {
			onChannel(t, func(ch *amqp.Channel) error {
				_, err := ch.QueueDelete(queue, false, false, false)
				return err
			})
		},
		"purged": func(t *testing.T, queue string) {
			onChannel(t, func(ch *amqp.Channel) error {
				_, err := ch.QueuePurge(queue, false)
				return err
			})
		},
		"full of junk": func(t *testing.T, queue string) {
			for range 5 {
				publish(t, queue, amqp.Publishing{Body: []byte("junk"), Headers: amqp.Table{"slot": int32(77)}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := fresh(lock.Mutex)
			_, h := holding(t, id, long)
			served := waiters(t, id, 0, 0)
			awaitBaton(t, id)
			tamper(t, id.Name+"-W")
			// All that is left in the end is that of the successor, and both listen.
			succeeds(t, "the batons", func() error {
				q, err := batonQueue(t, id)
				if err == nil && (q.Unacked != 1 || q.Messages != 1 || q.Consumers != 2) {
					err = errors.New("not as they were")
				}
				return err
			})
			must(t, h.Release(within(t)))
			for range 2 {
				select {
				case <-served:
				case <-time.After(patience):
					t.Fatal("nobody was woken")
				}
			}
		})
	}
}

// With a call that says which slot is free, nothing has to be searched: it is
// only made sure that the slots before it exist.
func TestWokenWaiterOfASemaphoreDoesNotSearch(t *testing.T) {
	const slots = 20
	id := fresh(lock.Semaphore)
	resize(t, shared, id, slots)
	defer resize(t, shared, id, 0)
	holdAllBut(t, id, slots, 18)
	_, h := holding(t, id, long)
	p := newTap(t)
	w := backend(t, at(p.url())).Lock(id)
	must(t, w.Connect(within(t)))
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(w)
	woken := untilWoken(t, w)
	eventually(t, "it waits", func() bool {
		q, found, err := shared.Queue(within(t), "/", id.Name+"-W")
		return err == nil && found && q.Consumers > 0
	})
	before := p.sum()["basic.publish"]
	must(t, h.Release(within(t)))
	must(t, <-woken)
	got, err := w.Acquire(within(t))
	must(t, err)
	if after := p.sum()["basic.publish"]; got.Slot() != 18 || before == 0 || after > before+17+4 {
		t.Errorf("slot %d, after %d more messages", got.Slot(), after-before)
	}
	must(t, w.Close())
	p.close()
}

// The successor proves now and then that it still is; its lease is long here.
func TestWaitersAskTheBrokerForNothing(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	holding(t, id, long)
	p := newTap(t)
	ctx, cancel := context.WithCancel(within(t))
	var ended []<-chan error
	for n := range 2 {
		cfg := at(p.url())
		cfg.Heartbeat = long
		w := refused(t, cfg, id)
		woken := make(chan error, 1)
		go func() { woken <- w.Wait(ctx, time.Hour) }()
		ended = append(ended, woken)
		awaitPlaces(t, id, n+1)
	}
	awaitBaton(t, id)
	before := 0
	eventually(t, "they are quiet", func() bool { // for a second, in which nothing happens
		time.Sleep(time.Second)
		last := before
		before = p.total()
		return before == last
	})
	cancel()
	for _, woken := range ended {
		if err := <-woken; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
