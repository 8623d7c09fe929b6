package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// quorumKinds are the kinds of locks that have quorum queues if that is asked for.
var quorumKinds = []lock.Kind{lock.Mutex, lock.Semaphore, lock.PersistentMutex, lock.TokenSemaphore}

// made returns a lock on quorum queues, which exists.
func made(t *testing.T, kind lock.Kind) lock.ID {
	t.Helper()
	id := fresh(kind)
	if kind.Administered() {
		_, err := makeTyped(t, id, rabbit.QueuesQuorum, 1)
		must(t, err)
		t.Cleanup(func() { resize(t, shared, id, 0) })
	}
	return id
}

// One at a time holds a lock of any kind on quorum queues, and the next one is handed the slot. Those of whom nobody has
// asked for a type find it.
func TestAnyKindIsHeldOnQuorumQueues(t *testing.T) {
	t.Parallel()
	for _, kind := range quorumKinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			id := made(t, kind)
			h := startedAs(t, typed(rabbit.QueuesQuorum), id)
			for _, queue := range queues(t, shared, id) {
				if strings.HasSuffix(queue, "-B") {
					t.Errorf("%q is exclusive, and so on one node", queue)
				}
			}
			cfg := typed("")
			cfg.Heartbeat = long
			other := backend(t, cfg).Lock(id)
			t.Cleanup(func() { other.Close() })
			must(t, other.Connect(within(t)))
			if _, err := other.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
				t.Fatalf("a second one: %v", err)
			}
			won := untilHeld(t, other)
			must(t, h.Verify(within(t)))
			must(t, h.Release(within(t)))
			next := wonBy(t, won)
			if next.Slot() != 1 || next.Term() <= h.Term() {
				t.Errorf("slot %d, term %d after %d", next.Slot(), next.Term(), h.Term())
			}
			must(t, next.Release(within(t)))
		})
	}
}

// Two berths disagree about the type of a lock: the second one is told, whichever it is.
func TestLockOfTheOtherTypeIsRefused(t *testing.T) {
	t.Parallel()
	types := map[rabbit.QueueType]rabbit.QueueType{
		rabbit.QueuesClassic: rabbit.QueuesQuorum, rabbit.QueuesQuorum: rabbit.QueuesClassic,
	}
	for _, kind := range quorumKinds {
		for has, asked := range types {
			t.Run(string(kind)+" with "+string(has)+" queues", func(t *testing.T) {
				t.Parallel()
				id := fresh(kind)
				if kind.Administered() {
					_, err := makeTyped(t, id, has, 1)
					must(t, err)
					t.Cleanup(func() { resize(t, shared, id, 0) })
				}
				h := startedAs(t, typed(has), id)
				defer h.Release(within(t))
				l := backend(t, typed(asked)).Lock(id)
				t.Cleanup(func() { l.Close() })
				must(t, l.Connect(within(t)))
				if held, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnsafe) {
					t.Errorf("%v, %v", held, err)
				}
			})
		}
	}
}

// Both make a mutex that there has never been, at the same time. Each looks for the other one's.
func TestOfTwoTypesOfAMutexOneIsHeldAtMost(t *testing.T) {
	t.Parallel()
	for range 20 {
		id := fresh(lock.Mutex)
		var contending sync.WaitGroup
		held := make(chan lock.Held, 2)
		for _, of := range []rabbit.QueueType{rabbit.QueuesClassic, rabbit.QueuesQuorum} {
			l := backend(t, typed(of)).Lock(id)
			defer l.Close()
			must(t, l.Connect(within(t)))
			contending.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				h, err := l.Acquire(ctx)
				if err == nil {
					err = h.Ready(ctx)
				}
				switch {
				case err == nil:
					held <- h
				case errors.Is(err, context.DeadlineExceeded): // a ledger that it found may have been used: it waits
				case !errors.Is(err, lock.ErrUnsafe):
					t.Errorf("with %s queues: %v", of, err)
				}
			})
		}
		contending.Wait()
		if len(held) == 2 {
			t.Fatal("both hold it")
		}
		for len(held) > 0 {
			must(t, (<-held).Release(within(t)))
		}
	}
}

// An operator deletes the ledger of a mutex while its command runs. A newcomer does not take the lock for one that is used
// for the first time, of whatever type it is and whichever the newcomer asks for.
func TestMutexWhoseLedgerIsDeletedKeepsItsType(t *testing.T) {
	t.Parallel()
	ledgers := map[rabbit.QueueType]string{rabbit.QueuesClassic: "-1-T", rabbit.QueuesQuorum: "-Q-M-1-T"}
	for has, ledger := range ledgers {
		for _, asked := range []rabbit.QueueType{"", rabbit.QueuesClassic, rabbit.QueuesQuorum} {
			t.Run(fmt.Sprintf("%s queues, %q asked for", has, asked), func(t *testing.T) {
				t.Parallel()
				id := fresh(lock.Mutex)
				cfg := typed(has)
				cfg.Heartbeat = long
				h := startedAs(t, cfg, id)
				if has == rabbit.QueuesClassic {
					awaitB(t, h)
				}
				must(t, shared.DeleteQueue(within(t), "/", id.Name+ledger))
				l := backend(t, typed(asked)).Lock(id)
				t.Cleanup(func() { l.Close() })
				must(t, l.Connect(within(t)))
				newcomer, err := l.Acquire(within(t))
				if err != nil {
					return // nothing is to be had
				}
				ctx, cancel := context.WithTimeout(within(t), time.Second)
				defer cancel()
				if newcomer.Ready(ctx) == nil {
					t.Error("two commands may run")
				}
				_ = newcomer.Release(within(t))
			})
		}
	}
}

// The ledger of a semaphore on classic queues is that of a mutex of its name, too.
func TestSemaphoreIsNotMadeBesideAMutexOnQuorumQueues(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	startedAs(t, typed(rabbit.QueuesQuorum), id)
	for _, kind := range []lock.Kind{lock.Semaphore, lock.PersistentMutex} {
		other := lock.ID{Kind: kind, Name: id.Name}
		if n, err := makeTyped(t, other, rabbit.QueuesClassic, 1); !errors.Is(err, lock.ErrUnsafe) {
			t.Errorf("%s: %d slots, %v", other, n, err)
		}
	}
}

// In N-A-L naming B of a mutex is called like the administration mutex, which one is made under.
func TestMutexOnQuorumQueuesHasEitherNaming(t *testing.T) {
	t.Parallel()
	for _, naming := range []rabbit.Naming{rabbit.NamingNLA, rabbit.NamingNAL} {
		cfg := typed(rabbit.QueuesQuorum)
		cfg.Naming = naming
		must(t, startedAs(t, cfg, fresh(lock.Mutex)).Release(within(t)))
	}
}

// A berth is refused, and another one that asks for what the lock has is not.
func TestMutexThatIsRefusedLeavesNoQueueBehind(t *testing.T) {
	t.Parallel()
	semaphore := fresh(lock.Semaphore) // its slot 1 is a mutex of its name
	resize(t, shared, semaphore, 1)
	t.Cleanup(func() { resize(t, shared, semaphore, 0) })
	id := lock.ID{Kind: lock.Mutex, Name: semaphore.Name}
	before := queues(t, shared, id)
	l := backend(t, typed(rabbit.QueuesQuorum)).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	if h, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnsafe) {
		t.Fatalf("%v, %v", h, err)
	}
	if left := queues(t, shared, id); !slices.Equal(left, before) {
		t.Errorf("it leaves %q, there were %q", left, before)
	}
	must(t, startedAs(t, typed(""), id).Release(within(t)))
}

func TestForeignQueueInThePlaceOfTheAdministrationMutexIsNamed(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	declare(t, shared.URL(), id.Name)
	b := backend(t, typed(rabbit.QueuesQuorum))
	l := b.Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	if h, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnsafe) || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("%v, %v", h, err)
	}
	if r, err := b.Inspect(within(t), id); err != nil || len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnsafe) {
		t.Errorf("%v, %v", r.Problems, err)
	}
}

// A broker that was killed may forget queues that it has just made, and with them that a command runs.
func TestWaiterDoesNotTakeAForgottenMutexForOneThatWasNeverUsed(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	cfg := typed(rabbit.QueuesQuorum)
	cfg.Heartbeat = long
	holder := backend(t, cfg).Lock(id)
	must(t, holder.Connect(within(t)))
	command, err := holder.Acquire(within(t))
	must(t, err)
	must(t, command.Ready(within(t)))
	waiter := backend(t, cfg).Lock(id)
	t.Cleanup(func() { waiter.Close() })
	must(t, waiter.Connect(within(t)))
	if h, err := waiter.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatalf("%v, %v", h, err)
	}
	for _, queue := range []string{"-Q-M-1-A", "-Q-M-1-T"} {
		must(t, shared.DeleteQueue(within(t), "/", id.Name+queue))
	}
	must(t, holder.Close()) // what it had is free
	var h lock.Held
	succeeds(t, "the slot", func() (err error) {
		if h, err = waiter.Acquire(within(t)); err != nil {
			_ = waiter.Connect(within(t))
		}
		return err
	})
	ctx, cancel := context.WithTimeout(within(t), time.Second)
	defer cancel()
	if h.Ready(ctx) == nil {
		t.Error("two commands may run")
	}
	_ = h.Release(within(t))
}

// The plain protocol has no ledgers of either type.
func TestPlainProtocolRefusesALockOnQuorumQueues(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Mutex, lock.Semaphore, lock.PersistentMutex} {
		id := made(t, kind)
		startedAs(t, typed(rabbit.QueuesQuorum), id)
		b := prompt(t, plainly(shared.URL()))
		if kind.Administered() {
			admin := b.Administrator(id)
			_, n, err := admin.Resize(within(t), 0, func(int) (int, error) { return 1, nil })
			if !errors.Is(err, lock.ErrUnsafe) {
				t.Errorf("%s: %d slots, %v", id, n, err)
			}
			must(t, admin.Close())
			continue
		}
		if h, err := plain(t, b, id).Acquire(within(t)); !errors.Is(err, lock.ErrUnsafe) {
			t.Errorf("%s: %v, %v", id, h, err)
		}
	}
}

// An older berth knows no queues of the other type, and makes a second lock beside the first.
func TestInspectSeesALockThatHasQueuesOfBothTypes(t *testing.T) {
	t.Parallel()
	id := made(t, lock.Semaphore)
	a := id.Name + "-1-A"
	declare(t, shared.URL(), a)
	t.Cleanup(func() { must(t, shared.DeleteQueue(within(t), "/", a)) })
	if r := inspect(t, id, shared.URL()); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Error(), "both types") {
		t.Errorf("%v", r.Problems)
	}
}
