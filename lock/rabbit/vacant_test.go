package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// removed returns a slot that was removed and has lost its holder, but may have
// its command still, with a wait for its vacancy.
func removed(t *testing.T, heartbeat time.Duration) (id lock.ID, h lock.Held, vacant <-chan error) {
	t.Helper()
	return removedFor(t, at(shared.URL()), heartbeat)
}

// removedFor is removed with a configuration for who waits.
func removedFor(t *testing.T, cfg rabbit.Config, heartbeat time.Duration) (id lock.ID, h lock.Held,
	vacant <-chan error) {
	t.Helper()
	id = fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	l, h := holding(t, id, heartbeat)
	resize(t, shared, id, 0)
	vanish(t, l)
	a := backend(t, cfg).Administrator(id)
	t.Cleanup(func() { a.Close() })
	done := make(chan error, 1)
	go func() { done <- a.AwaitVacant(within(t), 1, 3) }()
	return id, h, done
}

func TestRemovedSlotIsNotVacantBeforeItsCommandIsDead(t *testing.T) {
	t.Parallel()
	_, h, vacant := removed(t, long)
	select {
	case err := <-vacant:
		t.Fatalf("the slot was called vacant, or not (%v), while its command may run", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, <-vacant)
}

func TestRemovedSlotIsVacantAfterTheHandoverDelay(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, h, vacant := removed(t, time.Second)
	must(t, <-vacant)
	if took := time.Since(began); took < h.Lease() {
		t.Errorf("vacant after %s, before the lease of %s was over", took, h.Lease())
	}
}

// One after the other, the delays of so many would outlast the test's patience.
func TestOneHandoverDelayDoesForAllRemovedSlots(t *testing.T) {
	t.Parallel()
	const slots = 16
	id := fresh(lock.Semaphore)
	resize(t, shared, id, slots)
	var gone []lock.Lock
	for range slots {
		l, _ := holding(t, id, 2*time.Second) // for all slots one after the other, more than patience
		gone = append(gone, l)
	}
	resize(t, shared, id, 0)
	for _, l := range gone {
		vanish(t, l)
	}
	cfg, said := journal()
	a := backend(t, cfg).Administrator(id)
	t.Cleanup(func() { a.Close() })
	must(t, a.AwaitVacant(within(t), 1, slots+1))
	if n := said("waiting for the last holder"); n != slots {
		t.Errorf("said %d times what is waited for, want once for each of %d slots", n, slots)
	}
}

// An administrator does not know the heartbeat of a holder that has left no word.
func TestSilentLedgerIsWaitedForTheLongestLease(t *testing.T) {
	t.Parallel()
	for what, permitted := range map[string]string{"purged": ".*", "not readable": "-[AB]$"} {
		id := fresh(lock.Semaphore)
		resize(t, shared, id, 1)
		l, _ := holding(t, id, long)
		resize(t, shared, id, 0)
		vanish(t, l)
		if what == "purged" {
			onChannel(t, func(ch *amqp.Channel) error {
				_, err := ch.QueuePurge(id.Name+"-1-T", false)
				return err
			})
		}
		must(t, shared.AddUser(within(t), "administrator", "right"))
		must(t, shared.SetPermissions(within(t), "administrator", "/", ".*", ".*", permitted))
		cfg, said := journal()
		cfg.URLs = []string{shared.URLFor("administrator", "right", "/")}
		a := backend(t, cfg).Administrator(id)
		ctx, cancel := context.WithCancel(within(t))
		done := make(chan error, 1)
		go func() { done <- a.AwaitVacant(ctx, 1, 3) }()
		eventually(t, "the last holder's release is waited for",
			func() bool { return said("waiting for the last holder") > 0 })
		if said("at_most=1m5")+said("at_most=2m0s") == 0 {
			t.Errorf("%s: the slot is not waited for as long as its command may live", what)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		} else {
			readable(t, err, "slot 1 of "+id.String())
		}
		if said("waiting for the last holder") != 1 {
			t.Errorf("%s: slots that nobody ever held are waited for", what)
		}
		must(t, a.Close())
	}
}

func TestWaitForAVacancyOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	id, h, vacant := removed(t, long)
	closed := 0
	eventually(t, "two connections closed, one after the other", func() bool {
		n, err := shared.CloseConnections(within(t), id.Name+" @")
		must(t, err)
		closed += n
		return closed >= 2
	})
	select {
	case err := <-vacant:
		t.Fatalf("the wait ended: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, <-vacant)
}

// While nobody looked, somebody may have held the slot once more.
func TestRemovedSlotIsWatchedAgainAfterTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	for {
		p := newTap(t)
		cfg, said := journal()
		cfg.URLs = []string{p.url()}
		_, h, vacant := removedFor(t, cfg, time.Second)
		eventually(t, "the last holder's release is waited for",
			func() bool { return said("waiting for the last holder") == 1 })
		p.close()
		time.Sleep(h.Lease()) // in vain
		if len(vacant) > 0 {
			continue // it was over before the connection was lost
		}
		seen := time.Now()
		p.reopen(t)
		must(t, <-vacant)
		if took := time.Since(seen); took < h.Lease() {
			t.Errorf("vacant after %s, before the lease of %s was over", took, h.Lease())
		}
		return
	}
}

func TestWaitForAVacancyThatSeesNothingSaysSoOnce(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	cfg, said := journal()
	cfg.URLs = []string{speaker(t, func(c net.Conn) {
		attempts.Add(1)
		fmt.Fprint(c, "AMQP\x00\x01\x00\x00")
		c.Close()
	})}
	a := backend(t, cfg).Administrator(fresh(lock.Semaphore))
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() { done <- a.AwaitVacant(ctx, 1, 3) }()
	eventually(t, "some attempts", func() bool { return attempts.Load() > 3 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := said("cannot see whether the slot is vacant"); n != 1 {
		t.Errorf("said %d times", n)
	}
	must(t, a.Close())
}

// A record in the administrator's hand would be missing to a newcomer, and one that
// has come back often enough is discarded by a quorum queue.
func TestWaitForAVacancyReadsALedgerOnlyWhenItChanges(t *testing.T) {
	t.Parallel()
	p := newTap(t)
	_, h, vacant := removedFor(t, at(p.url()), long)
	looks := func() int { return p.sum()["basic.publish"] }
	eventually(t, "the ledger is read", func() bool { return p.sum()["basic.consume"] > 0 })
	before := looks()
	eventually(t, "three more looks", func() bool { return looks() >= before+9 })
	if n := p.sum()["basic.consume"]; n != 1 {
		t.Errorf("the one record was read %d times", n)
	}
	must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
	must(t, <-vacant)
}
