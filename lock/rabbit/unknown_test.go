package rabbit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// refuser makes a queue that the broker nacks every probe of.
func refuser(t *testing.T, name string) {
	t.Helper()
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	_, err = ch.QueueDeclare(name, true, false, false, false,
		amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
	must(t, err)
	t.Cleanup(func() { must(t, shared.DeleteQueue(within(t), "/", name)) })
}

func TestSlotThatTheBrokerCannotTellAboutIsNeitherFreeNorFull(t *testing.T) {
	for _, letter := range []string{"A", "B"} {
		id := fresh(lock.Semaphore)
		if letter == "B" {
			resize(t, shared, id, 1)
		}
		refuser(t, id.Name+"-1-"+letter)
		_, err := connectedAcquire(t, id)
		if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent) {
			t.Errorf("with %s unknown: %v", letter, err)
		}
	}
}

func TestFreeSlotIsFoundBesideOneThatIsUnknown(t *testing.T) {
	id := fresh(lock.Semaphore)
	refuser(t, id.Name+"-1-A")
	resize(t, shared, id, 2)
	if _, h := holder(t, shared, id); h.Slot() != 2 {
		t.Errorf("slot %d, want 2", h.Slot())
	}
}

func TestForeignQueueInThePlaceOfASlotCountsAsHeld(t *testing.T) {
	id := fresh(lock.Mutex)
	declare(t, shared.URL(), id.Name+"-1-B")
	if _, err := connectedAcquire(t, id); !errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring: %v", err)
	}
}

func TestLostRaceBesideASlotThatIsUnknownIsNotFull(t *testing.T) {
	id := fresh(lock.Semaphore)
	refuser(t, id.Name+"-1-A")
	resize(t, shared, id, 2)
	l := connected(t, shared, id)
	rabbit.LoseRaces(l, 2, 2)
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("acquiring: %v", err)
	}
}

// What keeps a waiter is told as long as it does, though the slot is left alone
// for a while.
func TestSlotWhoseLedgerCannotBeUsedIsNotCalledHeld(t *testing.T) {
	for _, c := range []struct {
		what, permitted string
		first           error
		alarm           bool
	}{
		{"foreign", ".*", lock.ErrUnknown, false},
		{"foreign, under an alarm", ".*", lock.ErrUnknown, true},
		{"not permitted", "-[ABW]$", lock.ErrDenied, false},
		{"not permitted, under an alarm", "-[ABW]$", lock.ErrDenied, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			id := fresh(lock.Semaphore)
			resize(t, shared, id, 2)
			ledger := id.Name + "-2-T"
			if strings.HasPrefix(c.what, "foreign") {
				another(t, ledger)
			} else {
				declare(t, shared.URL(), ledger)
			}
			holder(t, shared, id) // of slot 1
			must(t, shared.AddUser(within(t), "contender", "right"))
			must(t, shared.SetPermissions(within(t), "contender", "/", ".*", ".*", c.permitted))
			l := backend(t, at(shared.URLFor("contender", "right", "/"))).Lock(id)
			t.Cleanup(func() { l.Close() })
			must(t, l.Connect(within(t)))
			if c.alarm {
				raiseAlarm(t)
			}
			_, first := acquire(t, l)
			if !errors.Is(first, c.first) {
				t.Fatalf("at first: %v", first)
			}
			readable(t, first, ledger)
			for range 2 {
				_, err := acquire(t, l)
				if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrFull) ||
					errors.Is(err, lock.ErrDenied) || err.Error() != first.Error() {
					t.Errorf("then: %v; want the same, %v", err, first)
				}
			}
			// All that can be used is held: it waits for a baton and does not poll.
			rabbit.LookSeldom(l)
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			if err := l.Wait(ctx, time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it does not wait: %v", err)
			}
		})
	}
}
