package rabbit_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// refused returns a contender that has found every slot held, and does not look by itself soon.
func refused(t *testing.T, cfg rabbit.Config, id lock.ID) lock.Lock {
	t.Helper()
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	rabbit.LookSeldom(l)
	return l
}

// successor starts a waiter that becomes the successor for a mutex.
func successor(t *testing.T, cfg rabbit.Config, id lock.ID) (lock.Lock, <-chan error) {
	t.Helper()
	l := refused(t, cfg, id)
	woken := untilWoken(t, l)
	awaitSuccessor(t, id)
	return l, woken
}

// waitsStill makes sure that nothing has woken a waiter.
func waitsStill(t *testing.T, woken <-chan error) {
	t.Helper()
	select {
	case err := <-woken:
		t.Fatalf("its Wait returned %v", err)
	case <-time.After(300 * time.Millisecond):
	}
}

// legacy receives what the guard of a successor keeps.
func legacy(t *testing.T, l lock.Lock) []byte {
	t.Helper()
	select {
	case h := <-l.Handovers():
		return h.Will
	case <-within(t).Done():
		t.Fatal("the successor has nothing to leave behind")
		return nil
	}
}

// willOf returns what a will says is over.
func willOf(t *testing.T, written []byte) struct {
	Term uint64
	ID   string
} {
	t.Helper()
	_, will := lock.OpenWill(written)
	var said struct {
		Holding struct {
			Term uint64
			ID   string
		}
	}
	must(t, json.Unmarshal(will, &said))
	return said.Holding
}

func lasting() rabbit.Config {
	cfg := at(shared.URL())
	cfg.Heartbeat = long
	return cfg
}

// The release is all that it waits for: the holder that is frozen has B still.
func TestSuccessorStartsOnTheReleaseAlone(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	frozen, h := holding(t, id, long)
	next, woken := successor(t, lasting(), id)
	waitsStill(t, woken)
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, <-woken)
	running, err := next.Acquire(within(t))
	must(t, err)
	rabbit.TakeBAfter(running, 0)
	must(t, running.Ready(within(t)))
	must(t, running.Verify(within(t)))
	after := inLine(t, id)
	waitsStill(t, after)
	must(t, frozen.Close()) // B is free
	awaitBOf(t, id)
	must(t, running.Verify(within(t)))
	must(t, running.Release(within(t)))
	must(t, <-after)
}

// inLine starts a waiter that stands in line because a command has just started.
func inLine(t *testing.T, id lock.ID) <-chan error {
	t.Helper()
	l := refused(t, lasting(), id)
	return untilWoken(t, l)
}

// awaitBOf waits until a holder has B of a lock's first slot.
func awaitBOf(t *testing.T, id lock.ID) {
	t.Helper()
	awaitConsumer(t, id.Name+"-1-B")
}

func TestTermAndRecordOfTheSuccessorAreThereBeforehand(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	next, woken := successor(t, lasting(), id)
	if will := legacy(t, next); len(will) == 0 {
		t.Error("the successor has no will")
	}
	must(t, h.Release(within(t)))
	must(t, <-woken)
	running, err := next.Acquire(within(t))
	must(t, err)
	must(t, running.Ready(within(t)))
	if running.Term() <= h.Term() {
		t.Errorf("term %d after %d", running.Term(), h.Term())
	}
	if until := running.Proven().Add(running.Lease()).Until(); until <= 0 || until > running.Lease() {
		t.Errorf("the proof that it may start is valid for %s, of a lease of %s", until, running.Lease())
	}
}

// A successor that has gone, cleanly or not, is in nobody's way, and nobody starts
// beside the holder for it.
func TestSuccessorThatGoesLeavesTheLockAsItWas(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, l lock.Lock, will []byte){
		"closed": func(t *testing.T, l lock.Lock, _ []byte) { must(t, l.Close()) },
		"dead, with a will": func(t *testing.T, l lock.Lock, will []byte) {
			rabbit.CutContender(l)
			must(t, rabbit.ExecuteWill(within(t), will))
		},
	} {
		t.Run(how, func(t *testing.T) {
			id := fresh(lock.Mutex)
			_, h := holding(t, id, long)
			first, will := dying(t, id)
			end(t, first, will)
			_, woken := successor(t, lasting(), id)
			waitsStill(t, woken)
			must(t, proven(within(t), h))
			must(t, h.Release(within(t)))
			must(t, <-woken)
		})
	}
}

// dying returns a successor that does nothing any more, and its will.
func dying(t *testing.T, id lock.ID) (lock.Lock, []byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	l := backend(t, lasting()).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(ctx))
	if _, err := l.Acquire(ctx); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- l.Wait(ctx, time.Hour) }()
	awaitSuccessor(t, id)
	will := legacy(t, l)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return l, will
}

// A successor that has died is waited for like a holder: its command may have started.
func TestDeadSuccessorWithoutAWillIsWaitedFor(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	first, _ := dying(t, id)
	rabbit.CutContender(first)
	_, woken := successor(t, lasting(), id)
	must(t, h.Release(within(t)))
	waitsStill(t, woken)
}

// "released" lies in the socket of a successor that nobody has heard of for longer than
// its lease; somebody else may have started since.
func TestSuccessorWithoutAProofDoesNotStartOnAnOldRelease(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	p := newTap(t)
	cfg := at(p.url())
	cfg.Heartbeat = time.Second
	next, woken := successor(t, cfg, id)
	p.frozen.Lock()
	thaw := sync.OnceFunc(p.frozen.Unlock)
	t.Cleanup(thaw)
	time.Sleep(2 * time.Second) // its lease
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	if err := <-woken; err == nil {
		if h, err := next.Acquire(within(t)); err == nil {
			if err := h.Ready(within(t)); err == nil {
				t.Error("it starts without a proof")
			}
		}
	}
	thaw()
	must(t, l.Close())
	succeeds(t, "another attempt", func() error {
		if err := next.Connect(within(t)); err != nil {
			return err
		}
		h, err := next.Acquire(within(t))
		if err == nil {
			err = h.Ready(within(t))
		}
		return err
	})
}

// Its supervisor may be slow between the news and the start.
func TestSuccessorThatLosesItsPlaceDoesNotStart(t *testing.T) {
	for how, lose := range map[string]func(t *testing.T, id lock.ID, h lock.Held){
		"connection": func(t *testing.T, id lock.ID, _ lock.Held) { cut(t, id) },
		"channel":    func(t *testing.T, _ lock.ID, h lock.Held) { must(t, rabbit.CloseConsumer(within(t), h)) },
		"ledger": func(t *testing.T, id lock.ID, _ lock.Held) {
			must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-T"))
		},
	} {
		t.Run(how, func(t *testing.T) {
			for try := 1; startsWithoutItsPlace(t, lose); try++ { // the news was still on its way
				if try == 5 {
					t.Fatal("it starts though it has lost its place")
				}
			}
		})
	}
}

// startsWithoutItsPlace has a successor lose its place at the moment at which it may start, and reports whether it
// starts: it may until it hears of that, with the proof that it has, and hears of it then.
func startsWithoutItsPlace(t *testing.T, lose func(*testing.T, lock.ID, lock.Held)) bool {
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	next, woken := successor(t, lasting(), id)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	must(t, <-woken)
	running, err := next.Acquire(within(t))
	must(t, err)
	lose(t, id, running)
	eventually(t, "there is no successor", func() bool {
		q, _, err := shared.Queue(within(t), "/", id.Name+"-1-T")
		return err == nil && q.Consumers == 0
	})
	err = running.Ready(within(t))
	if err == nil {
		eventually(t, "it hears of that, or has its queue by then", func() bool {
			select {
			case <-running.Lost():
				return true
			default:
				return proven(within(t), running) == nil // as its supervisor asks
			}
		})
	} else if !errors.Is(err, lock.ErrLost) {
		t.Errorf("Ready: %v", err)
	}
	_ = running.Release(within(t))
	return err == nil
}

// A command that ends within a moment takes neither B nor a place in the line.
func TestShortCommandNeedsNeitherAClaimNorTheLine(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long) // B is claimed by the first user of a lock
	must(t, h.Release(within(t)))
	must(t, l.Close())
	_, h = started(t, id, long)
	if left := queues(t, shared, id); len(left) > 0 {
		t.Errorf("there are %q", left)
	}
	if line, _, err := shared.Queue(within(t), "/", id.Name+"-W"); line.Consumers > 0 || err != nil {
		t.Errorf("it is in line: %d, %v", line.Consumers, err)
	}
	if _, err := connectedAcquire(t, id); !errors.Is(err, lock.ErrFull) {
		t.Errorf("a second holder: %v", err)
	}
	must(t, h.Verify(within(t)))
	must(t, h.Release(within(t)))
	_, next := claimed(t, id, long)
	must(t, next.Ready(within(t)))
}

// What happens to a command that has just started, and whose holder has the reader's place alone.
func TestHolderWithoutAClaimKeepsItsSlot(t *testing.T) {
	t.Parallel()
	for what, happen := range map[string]func(t *testing.T, id lock.ID, h lock.Held){
		"its connection is closed": func(t *testing.T, id lock.ID, _ lock.Held) { cut(t, id) },
		"its connection is reset":  func(_ *testing.T, _ lock.ID, h lock.Held) { rabbit.CutConnection(h) },
		"its channels are closed": func(t *testing.T, _ lock.ID, h lock.Held) {
			must(t, rabbit.CloseConsumer(within(t), h))
		},
		"its ledger is deleted": func(t *testing.T, id lock.ID, _ lock.Held) {
			must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-T"))
		},
		"its ledger is purged": func(t *testing.T, id lock.ID, _ lock.Held) {
			onChannel(t, func(ch *amqp.Channel) error {
				_, err := ch.QueuePurge(id.Name+"-1-T", false)
				return err
			})
		},
	} {
		for _, waits := range []bool{false, true} {
			name := what
			if waits && what == "its connection is closed" {
				continue // the waiter's as well
			}
			if waits {
				name += " while somebody waits"
			}
			t.Run(name, func(t *testing.T) {
				id := fresh(lock.Mutex)
				l, h := holding(t, id, long)
				must(t, h.Release(within(t)))
				must(t, l.Close())
				l, h = started(t, id, long)
				var woken <-chan error
				if waits {
					woken = inLine(t, id)
					awaitPlaces(t, id, 1)
				}
				happen(t, id, h)
				succeeds(t, "proof", func() error { return proven(within(t), h) })
				if woken != nil {
					waitsStill(t, woken)
				}
				must(t, proven(within(t), h))
				must(t, h.Release(within(t)))
				if woken != nil {
					must(t, <-woken)
				}
				must(t, l.Close())
			})
		}
	}
}

// What happens to the ledger while there is a successor.
func TestSuccessorIsServedThoughTheLedgerWasTamperedWith(t *testing.T) {
	t.Parallel()
	for what, damage := range damages {
		t.Run(what, func(t *testing.T) {
			id := fresh(lock.Mutex)
			_, h := holding(t, id, long)
			served := waiters(t, id, 0, 0)
			onChannel(t, func(ch *amqp.Channel) error { return damage(ch, id.Name+"-1-T") })
			select {
			case <-served:
				t.Fatal("a waiter was served beside the holder")
			case <-time.After(300 * time.Millisecond):
			}
			must(t, proven(within(t), h))
			must(t, proven(within(t), h))
			awaitSuccessor(t, id)
			must(t, h.Release(within(t)))
			for range 2 {
				select {
				case <-served:
				case <-time.After(patience):
					t.Fatal("nobody was served")
				}
			}
		})
	}
}

// An alarm blocks the connection of a client that publishes, as a successor does when it looks
// after the holder. One that was blocked on its way to the reader's place has left a record that
// others wait for, for its lease.
func TestWaitersAreServedUnderAnAlarm(t *testing.T) {
	ctx := withinMinute(t)
	quiet, servedQuiet := servedWaiters(ctx, t, shared.URL(), 2*time.Second)
	p := newTap(t)
	looking, servedLooking := servedWaiters(ctx, t, p.url(), time.Second)
	raiseAlarm(t)
	must(t, proven(ctx, quiet))
	must(t, quiet.Release(ctx))
	made, _ := p.count(channelOpen, channelOpen)
	eventually(t, "the others have looked, and connected again because they were blocked", func() bool {
		conns, _ := p.count(channelOpen, channelOpen)
		return conns >= made+3
	})
	must(t, proven(ctx, looking))
	must(t, looking.Release(ctx))
	for range 3 {
		must(t, <-servedQuiet)
		must(t, <-servedLooking)
	}
}

// servedWaiters starts three waiters with a heartbeat, for a lock that is held.
func servedWaiters(ctx context.Context, t *testing.T, url string, heartbeat time.Duration) (h lock.Held,
	served chan error) {
	t.Helper()
	id := fresh(lock.Mutex)
	_, h = holding(t, id, long)
	cfg := at(url)
	cfg.Heartbeat = heartbeat
	served = make(chan error, 3)
	for n := range 3 {
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(ctx))
		go func() { served <- serve(ctx, l) }()
		awaitPlaces(t, id, n+1)
	}
	return h, served
}

// serve runs a command of no length as a supervisor does.
func serve(ctx context.Context, l lock.Lock) error {
	for {
		h, err := l.Acquire(ctx)
		if err == nil {
			if err = h.Ready(ctx); err == nil {
				return h.Release(ctx)
			}
			_ = h.Release(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, lock.ErrUnreachable):
			err = l.Connect(ctx)
		default:
			err = l.Wait(ctx, 10*time.Millisecond)
		}
		if err != nil && !errors.Is(err, lock.ErrUnreachable) {
			return err
		}
	}
}
