package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

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
			// A queue that is just going can leave a probe without an answer.
			if errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrUnknown) {
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

// A claim that is turned down is an error in the broker's log.
func TestLookUnderAnAlarmClaimsFewSlots(t *testing.T) {
	const slots = 100
	id := fresh(lock.Semaphore)
	resize(t, shared, id, slots)
	defer resize(t, shared, id, 0)
	p := newTap(t)
	l := backend(t, at(p.url())).Lock(id)
	must(t, l.Connect(within(t)))
	holdAllBut(t, id, slots, 0)
	raiseAlarm(t)
	_, err := acquire(t, l)
	if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrFull) {
		t.Errorf("acquiring: %v", err)
	}
	rabbit.LookSeldom(l)
	ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
	defer cancel()
	if err := l.Wait(ctx, time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it looks again at once: %v", err)
	}
	// Every claim that is turned down closes its channel, and every "no queue" does.
	if _, opened := p.count(queueDeclare, channelOpen); opened > 100 {
		t.Errorf("%d channels were opened for one look at %d slots", opened, slots)
	}
	must(t, l.Close())
	p.close()
}

// holdAllBut holds the slots 1..last, but one, until the test ends.
func holdAllBut(t *testing.T, id lock.ID, last, free int) {
	t.Helper()
	others := newCrowd(t, id)
	others.hold(1, free-1)
	others.hold(free+1, last)
}

func TestLostRacesDoNotEndTheSearch(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	for slots, want := range map[int]error{5 + 8: lock.ErrFull, 5 + 9: lock.ErrUnknown} {
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
	won := 0
	for range contenders {
		// One that lost a race too many, or was not answered, knows nothing; nor does one whose connection RabbitMQ 4.3 has
		// closed (506), as it does now and then when a queue that is probed is just going.
		switch err := <-ends; {
		case err == nil:
			won++
		case errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent),
			!errors.Is(err, lock.ErrUnknown) && !errors.Is(err, lock.ErrUnreachable):
			t.Error(err)
		}
	}
	if won == 0 {
		t.Error("nobody won a slot")
	}
}
