package rabbit_test

import (
	"errors"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// sized gives the semaphore so many slots until the test ends. A lock of many
// takes longer to make than a test is patient with one operation of it.
func sized(t *testing.T, id lock.ID, slots int) {
	t.Helper()
	must(t, create(withinMinute(t), id, slots))
}

// crowd is a connection that holds slots of a lock.
type crowd struct {
	t  *testing.T
	id lock.ID
	ch *amqp.Channel
}

func newCrowd(t *testing.T, id lock.ID) *crowd {
	t.Helper()
	_, ch := stranger(t)
	return &crowd{t: t, id: id, ch: ch}
}

// hold claims slots as their first users do: a ledger would say that they are free.
func (c *crowd) hold(from, to int) {
	c.t.Helper()
	for slot := from; slot <= to; slot++ {
		c.remove(fmt.Sprintf("%s-%d-T", c.id.Name, slot))
		_, err := c.ch.QueueDeclare(fmt.Sprintf("%s-%d-B", c.id.Name, slot), false, false, true, false, nil)
		must(c.t, err)
	}
}

func (c *crowd) free(from, to int) {
	c.t.Helper()
	for slot := from; slot <= to; slot++ {
		c.remove(fmt.Sprintf("%s-%d-B", c.id.Name, slot))
	}
}

func (c *crowd) remove(queue string) {
	c.t.Helper()
	_, err := c.ch.QueueDelete(queue, false, false, false)
	must(c.t, err)
}

// Sizes on both sides of where one batch of probes ends and the next begins, and
// of the slots that are asked about ahead of time.
func TestSearchFindsTheLastSlotOfALockOfAnySize(t *testing.T) {
	id := fresh(lock.Semaphore)
	t.Cleanup(func() { sized(t, id, 0) })
	others := newCrowd(t, id)
	held := 0
	for _, slots := range []int{1, 15, 16, 17, 18, 64, 80, 81, 82, 127, 128, 129, 255, 256, 257, 1024, 1104, 1105} {
		sized(t, id, slots)
		others.hold(held+1, slots-1)
		l := connected(t, shared, id)
		h, err := l.Acquire(within(t))
		if err != nil {
			t.Fatalf("the only free one of %d slots was not found: %v", slots, err)
		}
		if h.Slot() != slots {
			t.Fatalf("slot %d of %d, but it is held", h.Slot(), slots)
		}
		must(t, h.Release(within(t)))
		must(t, l.Close())
		others.hold(slots, slots)
		held = slots
		l = connected(t, shared, id)
		if h, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatalf("%v, %v with all of %d slots held", h, err, slots)
		}
		must(t, l.Close())
		if slots == 1024 {
			t.Run("a free one among them", func(t *testing.T) { findsTheOnlyFreeSlot(t, others, slots, 777) })
			others.hold(777, 777)
		}
	}
}

// findsTheOnlyFreeSlot has a crowd that holds all slots of a lock free one.
func findsTheOnlyFreeSlot(t *testing.T, others *crowd, slots, free int) {
	others.free(free, free)
	l, h := holder(t, shared, others.id)
	if h.Slot() != free {
		t.Errorf("slot %d, want %d", h.Slot(), free)
	}
	if _, err := connectedAcquire(t, others.id); !errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring a full lock: %v", err)
	}
	must(t, h.Release(within(t)))

	raiseAlarm(t)
	// Each attempt goes on where the last one stopped.
	var err error
	for range slots/32 + 1 {
		if h, err = acquire(t, l); !errors.Is(err, lock.ErrUnknown) {
			break
		}
	}
	must(t, err)
	if h.Slot() != free {
		t.Errorf("slot %d under an alarm, want %d", h.Slot(), free)
	}
	must(t, l.Close())
	eventually(t, "the slot is free again", func() bool {
		_, found, err := shared.Queue(within(t), "/", fmt.Sprintf("%s-%d-B", others.id.Name, free))
		must(t, err)
		return !found
	})
}

// What is left over beyond a slot that was deleted by hand is nobody's.
func TestSlotsBehindAGapAreNotUsed(t *testing.T) {
	id := fresh(lock.Semaphore)
	const slots = 140
	sized(t, id, slots)
	t.Cleanup(func() { sized(t, id, 0); sized(t, id, slots); sized(t, id, 0) })
	others := newCrowd(t, id)
	others.hold(1, slots)
	end := slots
	for _, gap := range []int{128, 90, 80, 18, 16, 5} {
		others.remove(fmt.Sprintf("%s-%d-A", id.Name, gap))
		others.free(gap, end)
		end = gap - 1
		l := connected(t, shared, id)
		if h, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Errorf("%v, %v; slots 1 to %d are held, and %d does not exist", h, err, gap-1, gap)
		}
		must(t, l.Close())
	}
}
