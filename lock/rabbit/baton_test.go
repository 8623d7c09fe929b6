package rabbit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/brokertest"
)

func TestWaiterIsWokenByTheEndOfAHolder(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, l lock.Lock, h lock.Held){
		"release": func(t *testing.T, _ lock.Lock, h lock.Held) { must(t, h.Release(within(t))) },
		"death":   func(t *testing.T, l lock.Lock, _ lock.Held) { vanish(t, l) },
	} {
		t.Run(name, func(t *testing.T) {
			id := fresh(lock.Mutex)
			l, h := holding(t, id, long)
			awaitBaton(t, id)
			woken := waiting(t, id)
			end(t, l, h)
			if err := <-woken; err != nil {
				t.Errorf("the waiter was not woken: %v", err)
			}
		})
	}
}

// Whoever releases before there is a baton makes one for the waiter.
func TestWaiterIsWokenByTheEndOfAShortHolding(t *testing.T) {
	id := fresh(lock.Mutex)
	for range 5 {
		l, h := holding(t, id, long)
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
	woken := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		woken <- w.Wait(ctx, time.Hour)
	}()
	return woken
}

func TestWaiterIsWokenWhenTheLockIsMade(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Semaphore, lock.PersistentMutex} {
		id := fresh(kind)
		w := connected(t, shared, id)
		if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrAbsent) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(w)
		ctx, cancel := context.WithCancel(within(t))
		woken := make(chan error, 1)
		go func() { woken <- w.Wait(ctx, time.Hour) }()
		awaitPlaces(t, id, 1)
		// Without a baton it would not look within that time.
		late := time.AfterFunc(9*time.Second, cancel)
		resize(t, shared, id, 1)
		must(t, <-woken)
		late.Stop()
		cancel()
		_, err := w.Acquire(within(t))
		must(t, err)
	}
}

// awaitBaton waits until the holder has its baton.
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
		cfg.Priority = priority
		w := backend(t, cfg).Lock(id)
		must(t, w.Connect(within(t)))
		t.Cleanup(func() { w.Close() })
		if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(w)
		ctx := within(t)
		go func() {
			for {
				if err := w.Wait(ctx, time.Hour); err != nil {
					return
				}
				if h, err := w.Acquire(ctx); err == nil {
					served <- n
					_ = h.Release(ctx)
					return
				}
				rabbit.LookSeldom(w)
			}
		}()
		awaitPlaces(t, id, n+2) // and the holder's
	}
	return served
}

// awaitPlaces waits until so many take part in the batons, waiters and holders.
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
	awaitBaton(t, id)
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

// A contender that gives a slot back and wants it again lets the waiter that it has woken be
// the first.
func TestWhoComesBackAtOnceDoesNotOvertakeTheWaiter(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	rabbit.BePolite(l, time.Hour)
	awaitBaton(t, id)
	served := waiters(t, id, 0)
	must(t, h.Release(within(t)))
	ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("acquiring again at once: %v", err)
	}
	<-served
	rabbit.BePolite(l, 0)
	succeeds(t, "the slot", func() error {
		_, err := l.Acquire(within(t))
		return err
	})
}

// What may happen to the queue of batons while all wait for one.
func TestWaiterIsWokenThoughTheBatonsWereTamperedWith(t *testing.T) {
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
			awaitBaton(t, id)
			served := waiters(t, id, 0, 0)
			tamper(t, id.Name+"-W")
			// All that is left in the end is the holder's, and all listen.
			succeeds(t, "the batons", func() error {
				q, err := batonQueue(t, id)
				if err == nil && (q.Unacked != 1 || q.Messages != 1 || q.Consumers != 3) {
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

// With a baton that says which slot is free, nothing has to be searched: it is
// only made sure that the slots before it exist.
func TestWokenWaiterOfASemaphoreDoesNotSearch(t *testing.T) {
	const slots = 20
	id := fresh(lock.Semaphore)
	resize(t, shared, id, slots)
	defer resize(t, shared, id, 0)
	holdAllBut(t, id, slots, 18)
	_, h := holder(t, shared, id)
	must(t, h.Ready(within(t)))
	awaitBaton(t, id)
	p := newTap(t)
	w := backend(t, at(p.url())).Lock(id)
	must(t, w.Connect(within(t)))
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	_, before := p.count(basicPublish, basicPublish)
	rabbit.LookSeldom(w)
	must(t, h.Release(within(t)))
	must(t, w.Wait(within(t), time.Hour))
	got, err := w.Acquire(within(t))
	must(t, err)
	if _, after := p.count(basicPublish, basicPublish); got.Slot() != 18 || before == 0 || after != before+17 {
		t.Errorf("slot %d, after %d more probes", got.Slot(), after-before)
	}
	must(t, w.Close())
	p.close()
}

func TestWaiterAsksTheBrokerForNothing(t *testing.T) {
	id := fresh(lock.Mutex)
	holding(t, id, long)
	awaitBaton(t, id)
	p := newTap(t)
	w := backend(t, at(p.url())).Lock(id)
	must(t, w.Connect(within(t)))
	if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(w)
	ctx, cancel := context.WithCancel(within(t))
	woken := make(chan error, 1)
	go func() { woken <- w.Wait(ctx, time.Hour) }()
	awaitPlaces(t, id, 2)
	before := p.total()
	time.Sleep(time.Second) // in which nothing happens
	if after := p.total(); before == 0 || after != before {
		t.Errorf("%d methods were sent, then %d", before, after)
	}
	cancel()
	if err := <-woken; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, w.Close())
	p.close()
}
