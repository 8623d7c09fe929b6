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

// crowd is a connection that makes slots of a lock and holds them. The broker's answers
// are awaited once for many queues.
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

// each sends something about each slot, and waits until the broker has done all of it.
func (c *crowd) each(from, to int, send func(slot int) error) {
	c.t.Helper()
	for slot := from; slot <= to; slot++ {
		must(c.t, send(slot))
	}
	must(c.t, c.ch.Qos(0, 0, false))
}

// hold claims slots as their first users do: a ledger would say that they are free.
func (c *crowd) hold(from, to int) {
	c.t.Helper()
	c.remove("T", from, to)
	c.each(from, to, func(slot int) error {
		_, err := c.ch.QueueDeclare(c.queue("B", slot), false, false, true, true, nil)
		return err
	})
}

// grow makes slots as administration does.
func (c *crowd) grow(from, to int) {
	c.t.Helper()
	c.each(from, to, func(slot int) error {
		_, err := c.ch.QueueDeclare(c.queue("A", slot), true, false, false, true,
			amqp.Table{"x-max-length": int32(0), "x-overflow": "drop-head"})
		return err
	})
}

func (c *crowd) free(from, to int) { c.remove("B", from, to) }

// remove deletes the queues A, B or T of slots.
func (c *crowd) remove(letter string, from, to int) {
	c.t.Helper()
	c.each(from, to, func(slot int) error {
		_, err := c.ch.QueueDelete(c.queue(letter, slot), false, false, true)
		return err
	})
}

func (c *crowd) queue(letter string, slot int) string {
	return fmt.Sprintf("%s-%d-%s", c.id.Name, slot, letter)
}

// Sizes on both sides of where one batch of probes ends and the next begins, and
// of the slots that are asked about ahead of time: powers of two.
func TestSearchFindsTheLastSlotOfALockOfAnySize(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	others := newCrowd(t, id)
	held := 0
	t.Cleanup(func() { others.remove("A", 1, held) })
	sizes, among := []int{1, 4, 5, 6, 20, 21, 22, 84, 85, 86, 127, 128, 129}, 77
	if thorough {
		sizes, among = append(sizes, 255, 256, 257, 1024, 1108, 1109, 1110), 777
	}
	for _, slots := range sizes {
		others.grow(held+1, slots)
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
	}
	t.Run("one among them", func(t *testing.T) { findsTheOnlyFreeSlot(t, others, among) })
}

// findsTheOnlyFreeSlot has a crowd that holds all slots of a lock free one.
func findsTheOnlyFreeSlot(t *testing.T, others *crowd, free int) (l lock.Lock) {
	t.Helper()
	others.free(free, free)
	l, h := holder(t, shared, others.id)
	if h.Slot() != free {
		t.Errorf("slot %d, want %d", h.Slot(), free)
	}
	if _, err := connectedAcquire(t, others.id); !errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring a full lock: %v", err)
	}
	must(t, h.Release(within(t)))
	return l
}

func TestSearchUnderAnAlarmGoesOnWhereItStopped(t *testing.T) {
	const slots, free = 200, 177
	id := fresh(lock.Semaphore)
	others := newCrowd(t, id)
	t.Cleanup(func() { others.remove("A", 1, slots) })
	others.grow(1, slots)
	others.hold(1, slots)
	l := findsTheOnlyFreeSlot(t, others, free)
	raiseAlarm(t)
	var h lock.Held
	err := error(lock.ErrUnknown)
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
}

// What is left over beyond a slot that was deleted by hand is nobody's.
func TestSlotsBehindAGapAreNotUsed(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	const slots = 140
	sized(t, id, slots)
	t.Cleanup(func() { sized(t, id, 0); sized(t, id, slots); sized(t, id, 0) })
	others := newCrowd(t, id)
	others.hold(1, slots)
	end := slots
	for _, gap := range []int{128, 90, 80, 18, 16, 5} {
		others.remove("A", gap, gap)
		others.free(gap, end)
		end = gap - 1
		l := connected(t, shared, id)
		if h, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Errorf("%v, %v; slots 1 to %d are held, and %d does not exist", h, err, gap-1, gap)
		}
		must(t, l.Close())
	}
}
