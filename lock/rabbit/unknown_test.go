package rabbit_test

import (
	"errors"
	"testing"

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
	_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
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
