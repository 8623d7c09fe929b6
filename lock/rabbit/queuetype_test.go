package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

func TestTypeOfQueuesIsThatOfTheLock(t *testing.T) {
	t.Parallel()
	for _, queues := range []rabbit.QueueType{rabbit.QueuesClassic, rabbit.QueuesQuorum} {
		id := fresh(lock.TokenSemaphore)
		_, err := makeTyped(t, id, queues, 2)
		must(t, err)
		t.Cleanup(func() { resize(t, shared, id, 0) })
		_, h := startedIn(t, id)
		resize(t, shared, id, 1)
		other := rabbit.QueuesQuorum
		if queues == other {
			other = rabbit.QueuesClassic
		}
		l := backend(t, typed(other)).Lock(id)
		defer l.Close()
		must(t, l.Connect(within(t)))
		if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnsafe) || !strings.Contains(err.Error(), "--queue-type") {
			t.Errorf("with the other type than %s it is told: %v", queues, err)
		}
		if _, err := makeTyped(t, id, other, 2); !errors.Is(err, lock.ErrUnsafe) {
			t.Errorf("beside %s queues others are made: %v", queues, err)
		}
		must(t, h.Release(within(t)))
	}
}

// A command of a holder may still be about to end, and nobody would wait for it.
func TestLockOfAnotherTypeIsNotMadeBesideLedgers(t *testing.T) {
	t.Parallel()
	for from, to := range map[rabbit.QueueType]rabbit.QueueType{
		rabbit.QueuesClassic: rabbit.QueuesQuorum, rabbit.QueuesQuorum: rabbit.QueuesClassic,
	} {
		id := fresh(lock.TokenSemaphore)
		_, err := makeTyped(t, id, from, 1)
		must(t, err)
		_, h := startedIn(t, id)
		resize(t, shared, id, 0)
		_, err = makeTyped(t, id, to, 1)
		if !errors.Is(err, lock.ErrUnsafe) || !strings.Contains(err.Error(), "-1-T") {
			t.Errorf("from %s to %s: %v", from, to, err)
		}
		must(t, h.Release(within(t)))
	}
}

// A berth that goes on with a broken-off removal may find no slot, and nothing that says which type the lock had.
func TestRemovalThatIsTakenUpAgainAwaitsCommandsOfEitherType(t *testing.T) {
	t.Parallel()
	for _, of := range []rabbit.QueueType{rabbit.QueuesClassic, rabbit.QueuesQuorum} {
		for _, said := range []rabbit.QueueType{"", rabbit.QueuesClassic, rabbit.QueuesQuorum} {
			t.Run(fmt.Sprintf("%s, said %q", of, said), func(t *testing.T) { t.Parallel(); takeUp(t, of, said, false) })
			if !thorough {
				continue
			}
			t.Run(fmt.Sprintf("%s, said %q, ascending", of, said), func(t *testing.T) {
				t.Parallel()
				takeUp(t, of, said, true)
			})
		}
	}
}

// takeUp removes a lock of two slots in two attempts. With broken the first one comes no further than slot 1.
func takeUp(t *testing.T, of, said rabbit.QueueType, broken bool) {
	id := fresh(lock.TokenSemaphore)
	_, err := makeTyped(t, id, of, 2)
	must(t, err)
	_, first := startedIn(t, id)
	_, second := startedIn(t, id)
	one := backend(t, at(shared.URL())).Administrator(id)
	if broken {
		must(t, shared.DeleteQueue(within(t), "/", letter(id, of, 1, "A")))
	} else {
		_, _, err = one.Resize(within(t), 0, func(int) (int, error) { return 0, nil })
		must(t, err)
		if want := []string{"--queue-type " + string(of)}; !slices.Equal(one.Flags(), want) {
			t.Errorf("a command about the lock is told to have %q, want %q", one.Flags(), want)
		}
	}
	another := backend(t, typed(said)).Administrator(id)
	t.Cleanup(func() { another.Close() })
	_, _, err = another.Resize(within(t), 2, func(int) (int, error) { return 0, nil })
	must(t, err)
	if flags := another.Flags(); len(flags) > 0 {
		t.Errorf("it has not seen a slot, and says %q", flags)
	}
	if left := queues(t, shared, id); slices.Contains(left, letter(id, of, 2, "A")) {
		t.Errorf("a slot is left: %v", left)
	}
	vacant := make(chan error, 1)
	go func() { vacant <- another.AwaitVacant(within(t), 1, 4) }()
	must(t, first.Release(within(t)))
	select {
	case err := <-vacant:
		t.Fatalf("called vacant, or not (%v), while a command runs", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, second.Release(within(t)))
	must(t, <-vacant)
}

func letter(id lock.ID, of rabbit.QueueType, slot int, letter string) string {
	middle := "K"
	if of == rabbit.QueuesQuorum {
		middle = "Q"
	}
	return fmt.Sprintf("%s-%s-%d-%s", id.Name, middle, slot, letter)
}

func TestLockOfAnotherTypeWaitsForTheLedgersNode(t *testing.T) {
	t.Parallel()
	id := fresh(lock.TokenSemaphore)
	_, err := makeTyped(t, id, rabbit.QueuesClassic, 1)
	must(t, err)
	_, h := startedIn(t, id)
	resize(t, shared, id, 0)
	up := nodeDown(t, id.Name+"-K-1-T")
	if _, err := makeTyped(t, id, rabbit.QueuesQuorum, 1); !errors.Is(err, lock.ErrUnknown) && !errors.Is(err, lock.ErrUnsafe) {
		t.Errorf("it is held, and its ledger's node is down, and it is made again: %v", err)
	}
	up()
	must(t, h.Release(within(t)))
}

func TestWaiterHearsOfALockOfEitherType(t *testing.T) {
	t.Parallel()
	for _, queues := range []rabbit.QueueType{rabbit.QueuesClassic, rabbit.QueuesQuorum} {
		id := fresh(lock.TokenSemaphore)
		l := connected(t, shared, id)
		rabbit.LookForTokens(l, long)
		rabbit.LookForTokensFirst(l, long)
		won := untilHeld(t, l)
		awaitConsumer(t, id.Name+"-K")
		_, err := makeTyped(t, id, queues, 1)
		must(t, err)
		must(t, wonBy(t, won).Release(within(t)))
		resize(t, shared, id, 0)
	}
}

// A waiter that stands at the tokens of one type goes to those of the other once the lock is made, wherever on the way its
// attempt was broken off.
func TestWaiterFindsTheTypeThoughAnAttemptWasBrokenOff(t *testing.T) {
	t.Parallel()
	step := 240 * time.Millisecond // a round trip takes 100 ms
	if thorough {
		step = 40 * time.Millisecond
	}
	for after := 50 * time.Millisecond; after < time.Second; after += step {
		t.Run("after "+after.String(), func(t *testing.T) {
			t.Parallel()
			far, _ := newFar(t)
			id := fresh(lock.TokenSemaphore)
			l := backend(t, at(far)).Lock(id)
			t.Cleanup(func() { l.Close() })
			must(t, l.Connect(within(t)))
			_, err := l.Acquire(within(t))
			if !errors.Is(err, lock.ErrAbsent) {
				t.Fatal(err)
			}
			must(t, l.Wait(within(t), patience)) // it has seen no lock for long enough to look again, and consumes
			_, err = makeTyped(t, id, rabbit.QueuesQuorum, 1)
			must(t, err)
			t.Cleanup(func() { resize(t, shared, id, 0) })
			ctx, cancel := context.WithTimeout(within(t), after)
			defer cancel()
			h, err := l.Acquire(ctx)
			if err != nil {
				must(t, l.Connect(within(t)))
				h, err = l.Acquire(within(t))
				must(t, err)
			}
			must(t, h.Release(within(t)))
		})
	}
}
