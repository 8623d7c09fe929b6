package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/internal/brokertest"
	"berth/lock"
	"berth/lock/rabbit"
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
		all, err := shared.Queues(within(t), "/")
		if err != nil {
			return err
		}
		for _, q := range all {
			if q.Name == id.Name+"-W" && q.Unacked > 0 {
				return nil
			}
		}
		return errors.New("nobody has one")
	})
}

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
		all, err := shared.Queues(within(t), "/")
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(q brokertest.Queue) bool { return q.Name == id.Name+"-W" && q.Messages > 1 }) {
			return errors.New("there are more than the holder's")
		}
		return nil
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
		awaitListeners(t, id, n+1)
	}
	return served
}

// awaitListeners waits until so many waiters can be woken. A holder consumes too.
func awaitListeners(t *testing.T, id lock.ID, n int) {
	t.Helper()
	succeeds(t, "the consumers", func() error {
		q, err := batonQueue(t, id)
		if err == nil && q.Consumers != n+1 {
			err = errors.New("not all are there")
		}
		return err
	})
}

func batonQueue(t *testing.T, id lock.ID) (brokertest.Queue, error) {
	t.Helper()
	all, err := shared.Queues(within(t), "/")
	if err != nil {
		return brokertest.Queue{}, err
	}
	i := slices.IndexFunc(all, func(q brokertest.Queue) bool { return q.Name == id.Name+"-W" })
	if i < 0 {
		return brokertest.Queue{}, errors.New("there is no queue of batons")
	}
	return all[i], nil
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

// Who gives a slot back and wants it again lets the waiter that it has woken be
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

func TestHolderWhoseBatonIsStolenMakesAnother(t *testing.T) {
	id := fresh(lock.Mutex)
	onChannel(t, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(id.Name+"-W", true, false, false, false, amqp.Table{"x-max-length": int32(100), "x-overflow": "drop-head"}); err != nil {
			return err
		}
		stolen, err := ch.Consume(id.Name+"-W", "thief", true, false, false, false, amqp.Table{"x-priority": int32(2000)})
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
	awaitListeners(t, id, 1)
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

// Who may not take part looks from time to time, and says so once, however often
// it connects.
func TestWaiterWithoutBatonsSaysSoOnce(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	must(t, shared.AddUser(within(t), "unwoken", "right"))
	pattern := "^" + id.Name + "-[0-9]+-[ABT]$"
	must(t, shared.SetPermissions(within(t), "unwoken", "/", pattern, ".*", pattern))
	var saying sync.Mutex
	var said bytes.Buffer
	cfg := at(shared.URLFor("unwoken", "right", "/"))
	cfg.Host = "elsewhere"
	cfg.Log = hclog.New(&hclog.LoggerOptions{Output: &said, Mutex: &saying})
	w := backend(t, cfg).Lock(id)
	t.Cleanup(func() { w.Close() })
	for range 3 {
		must(t, w.Connect(within(t)))
		for range 5 {
			if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
				t.Fatal(err)
			}
			must(t, w.Wait(within(t), 50*time.Millisecond))
		}
		n, err := shared.CloseConnections(within(t), "@elsewhere")
		if err != nil || n == 0 {
			t.Fatalf("%d connections closed, %v", n, err)
		}
		succeeds(t, "the end of the connection", func() error {
			if err := w.Wait(within(t), time.Millisecond); err == nil {
				return errors.New("it works")
			}
			return nil
		})
	}
	must(t, h.Release(within(t)))
	must(t, w.Connect(within(t)))
	_, err := w.Acquire(within(t))
	must(t, err)
	saying.Lock()
	defer saying.Unlock()
	if n := strings.Count(said.String(), "cannot be woken"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
}

// awaitPlaces waits until so many take part in the batons.
func awaitPlaces(t *testing.T, id lock.ID, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d consumers of batons", n), func() bool {
		all, err := shared.Queues(within(t), "/")
		must(t, err)
		return slices.ContainsFunc(all, func(q brokertest.Queue) bool { return q.Name == id.Name+"-W" && q.Consumers == n })
	})
}

// A baton that reaches a contender which may not use the slot is for others.
func TestWaiterWithoutPermissionPassesTheBatonOn(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Mutex, lock.Semaphore} {
		id := fresh(kind)
		if kind == lock.Semaphore {
			resize(t, shared, id, 1)
		}
		_, h := holding(t, id, long)
		awaitBaton(t, id)
		must(t, shared.AddUser(within(t), "no ledger", "right"))
		must(t, shared.SetPermissions(within(t), "no ledger", "/", ".*", ".*", "^(.*-(A|B|W)|"+id.Name+")$"))
		barred := backend(t, at(shared.URLFor("no ledger", "right", "/"))).Lock(id)
		t.Cleanup(func() { barred.Close() })
		must(t, barred.Connect(within(t)))
		if _, err := barred.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(barred)
		first := make(chan error, 1)
		ctx, cancel := context.WithCancel(within(t))
		go func() {
			err := barred.Wait(ctx, time.Hour)
			if err == nil {
				if _, err := barred.Acquire(ctx); !errors.Is(err, lock.ErrDenied) {
					t.Errorf("%s: %v", kind, err)
				}
			}
			first <- err
			_ = barred.Wait(ctx, time.Hour)
			first <- nil
		}()
		awaitPlaces(t, id, 2) // the holder's and the waiter's
		second := waiting(t, id)
		awaitPlaces(t, id, 3)
		must(t, h.Release(within(t)))
		must(t, <-first)
		must(t, <-second)
		cancel()
		<-first
	}
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
