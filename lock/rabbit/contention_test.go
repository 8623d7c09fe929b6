package rabbit_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

func TestManyContendersShareTheSlotsOneEach(t *testing.T) {
	const contenders, slots, rounds = 24, 6, 3
	id := fresh(lock.Semaphore)
	resize(t, shared, id, slots)
	defer resize(t, shared, id, 0)
	b := backend(t, at(shared.URL()))
	var mu sync.Mutex
	holders := map[int]int{} // per slot; guarded by mu
	change := func(slot, by int) int {
		mu.Lock()
		defer mu.Unlock()
		holders[slot] += by
		return holders[slot]
	}
	ctx := withinMinute(t)
	work := func() error {
		l := b.Lock(id)
		defer l.Close()
		if err := l.Connect(ctx); err != nil {
			return err
		}
		for won := 0; won < rounds; {
			h, err := l.Acquire(ctx)
			if errors.Is(err, lock.ErrFull) {
				err = l.Wait(ctx, time.Millisecond)
				if err == nil {
					continue
				}
			}
			if err != nil {
				return err
			}
			won++
			if n := change(h.Slot(), 1); n != 1 {
				return fmt.Errorf("%d holders of slot %d", n, h.Slot())
			}
			if err := h.Verify(ctx); err != nil {
				return err
			}
			change(h.Slot(), -1)
			if err := h.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	ends := make(chan error)
	for range contenders {
		go func() { ends <- work() }()
	}
	for range contenders {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

func TestTheOnlyFreeSlotOfAThousandIsFound(t *testing.T) {
	const slots, free = 1000, 777
	id := fresh(lock.Semaphore)
	resize(t, shared, id, slots)
	defer resize(t, shared, id, 0)
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	for slot := 1; slot <= slots; slot++ {
		if slot != free {
			_, err := ch.QueueDeclare(fmt.Sprintf("%s-%d-B", id.Name, slot), false, false, true, false, nil)
			must(t, err)
		}
	}
	l, h := holder(t, shared, id)
	if h.Slot() != free {
		t.Errorf("slot %d, want %d", h.Slot(), free)
	}
	if _, err := connectedAcquire(t, id); !errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring a full lock: %v", err)
	}
	must(t, h.Release(within(t)))

	raiseAlarm(t)
	again, err := l.Acquire(within(t))
	must(t, err)
	if again.Slot() != free {
		t.Errorf("slot %d under an alarm, want %d", again.Slot(), free)
	}
}

func TestLostRacesDoNotEndTheSearch(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 40)
	defer resize(t, shared, id, 0)
	l := connected(t, shared, id)
	rabbit.LoseRaces(l, 1, 16) // all that are looked at first
	h, err := l.Acquire(within(t))
	must(t, err)
	if h.Slot() <= 16 {
		t.Errorf("obtained slot %d", h.Slot())
	}
}

func TestSlotThatWasNotTriedIsNotCalledHeld(t *testing.T) {
	for slots, want := range map[int]error{8: lock.ErrFull, 9: lock.ErrUnknown} {
		id := fresh(lock.Semaphore)
		resize(t, shared, id, slots)
		defer resize(t, shared, id, 0)
		l := connected(t, shared, id)
		rabbit.LoseRaces(l, 1, slots)
		if _, err := l.Acquire(within(t)); !errors.Is(err, want) {
			t.Errorf("losing every race for %d slots: %v", slots, err)
		}
	}
}

func TestCrowdIsNotToldThatAllSlotsAreHeldWhileMostAreFree(t *testing.T) {
	const contenders, slots = 60, 200
	id := fresh(lock.Semaphore)
	resize(t, shared, id, slots)
	defer resize(t, shared, id, 0)
	start := make(chan struct{})
	ends := make(chan error)
	for range contenders {
		l := connected(t, shared, id)
		go func() {
			<-start
			_, err := l.Acquire(within(t))
			ends <- err
		}()
	}
	close(start)
	for range contenders {
		if err := <-ends; err != nil && !errors.Is(err, lock.ErrUnknown) {
			t.Error(err)
		}
	}
}
