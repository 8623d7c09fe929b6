package rabbit_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// another berth logs in as somebody else, and has had the slot.
func heldBySecond(t *testing.T, id lock.ID) {
	t.Helper()
	must(t, shared.AddUser(within(t), "second", "right"))
	must(t, shared.SetPermissions(within(t), "second", "/", ".*", ".*", ".*"))
	cfg := at(shared.URLFor("second", "right", "/"))
	cfg.Heartbeat = long
	l := backend(t, cfg).Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	must(t, h.Release(within(t)))
}

// Records of another user count if that is named, and make the ledger unknown otherwise.
func TestRecordsCountOfTheUsersOfTheLock(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{true, false} {
		id := fresh(lock.Mutex)
		heldBySecond(t, id)
		cfg, said := journal()
		if cfg.Heartbeat = long; named {
			cfg.Users = []string{"first", "second"}
		}
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		h, err := l.Acquire(within(t))
		must(t, err)
		if named {
			must(t, h.Ready(within(t)))
		} else {
			waits(t, h)
		}
		if n := said(`user \"second\"`); named && n > 0 || !named && n != 1 {
			t.Errorf("named: %t; it is said %d times that records of the user do not count", named, n)
		}
		if n := said("--lock-users"); !named && n != 1 {
			t.Errorf("what to do is said %d times", n)
		}
	}
}

// A newcomer gives the slot back to a holder of another user that is one of the lock's.
func TestSlotIsGivenBackToAnotherUserOfTheLock(t *testing.T) {
	id := fresh(lock.Mutex)
	must(t, shared.AddUser(within(t), "second", "right"))
	must(t, shared.SetPermissions(within(t), "second", "/", ".*", ".*", ".*"))
	cfg := at(shared.URLFor("second", "right", "/"))
	cfg.Heartbeat, cfg.Users = long, []string{"guest"}
	h := holdingAs(t, cfg, id)
	rabbit.CutConnection(h)
	_ = lost(t, h)
	cfg = at(shared.URL())
	cfg.Heartbeat, cfg.Users = long, []string{"second"}
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	var next lock.Held
	succeeds(t, "the slot", func() (err error) { // once the broker has noticed that the connection is cut
		next, err = l.Acquire(within(t))
		return err
	})
	ready := untilReady(t, next)
	must(t, proven(within(t), h))
	if err := <-ready; err == nil {
		t.Error("two commands run")
	}
}

// A term that no clock gives is nobody's, whichever user says it: no term could be above it.
func TestTermThatNoClockGivesDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, ahead := range []uint64{math.MaxUint64, math.MaxInt64, 1 << 62, 1 << 60} {
		for _, user := range []string{"guest", ""} {
			records := []amqp.Publishing{heldBy(1, time.Second), releaseOf(1), heldBy(ahead, time.Second), releaseOf(ahead)}
			for i := range records {
				records[i].UserId = user
			}
			id := ledgerWith(t, records...)
			for try := range 2 {
				l, h := claimed(t, id, time.Second)
				rabbit.SetLongest(l, 2*time.Second)
				ready := untilReady(t, h)
				if try == 0 {
					waitsStill(t, ready)
				}
				must(t, <-ready)
				awaitB(t, h) // and removes what does not count
				if limit := time.Now().Add(30 * 365 * 24 * time.Hour).UnixMicro(); h.Term() > uint64(limit) {
					t.Errorf("term %d after %d of user %q", h.Term(), ahead, user)
				}
				must(t, h.Release(within(t)))
				must(t, l.Close())
			}
		}
	}
}

// What cannot be a berth's in any part of it is no record at all.
func TestRecordOfExcessIsNone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for _, content := range []string{
		`{"record":"held","term":7,"handover_ms":1,"id":"` + long + `"}`,
		`{"record":"held","term":7,"handover_ms":1,"id":"a","host":"` + strings.Repeat(long, 3) + `"}`,
		`{"record":"held","term":7,"handover_ms":1,"id":"a","more":"` + strings.Repeat(long, 20) + `"}`,
		fmt.Sprintf(`{"record":"held","term":%s,"id":"a"}`, "1"+strings.Repeat("0", 30)),
	} {
		id := ledgerWith(t, heldBy(1, time.Minute), releaseOf(1), written(content))
		_, h := claimed(t, id, time.Minute)
		must(t, h.Ready(within(t)))
		must(t, h.Release(within(t)))
	}
	// Nor is one with a body, which would be delivered again and again.
	heavy := heldBy(7, time.Minute)
	heavy.Body = []byte("x")
	id := ledgerWith(t, heldBy(1, time.Minute), releaseOf(1), heavy)
	_, h := claimed(t, id, time.Minute)
	must(t, h.Ready(within(t)))
	must(t, h.Release(within(t)))
}

// Terms grow although a stranger writes some, and empties the ledger.
func TestTermsGrowWhateverAStrangerWrites(t *testing.T) {
	t.Parallel()
	ch := forger(t)
	id := fresh(lock.Mutex)
	ledger := id.Name + "-1-T"
	last := uint64(0)
	for _, ahead := range []time.Duration{0, time.Second, 50 * time.Minute} {
		l, h := claimed(t, id, time.Second)
		rabbit.SetLongest(l, 2*time.Second)
		start(t, h)
		forge(t, ch, ledger, forged("", `{"record":"released","term":%d,"id":"x"}`, time.Now().Add(ahead).UnixMicro()))
		must(t, h.Release(within(t)))
		must(t, l.Close())
		next, after := claimed(t, id, time.Second) // reads it
		rabbit.SetLongest(next, 2*time.Second)
		start(t, after)
		must(t, after.Release(within(t)))
		must(t, next.Close())
		pushOut(t, ch, ledger)
		if h.Term() <= last || after.Term() <= h.Term() {
			t.Errorf("%s ahead: terms %d, %d, %d", ahead, last, h.Term(), after.Term())
		}
		last = after.Term()
	}
	l, h := claimed(t, id, time.Second)
	rabbit.SetLongest(l, 2*time.Second)
	start(t, h)
	if h.Term() <= last {
		t.Errorf("term %d after %d", h.Term(), last)
	}
}
