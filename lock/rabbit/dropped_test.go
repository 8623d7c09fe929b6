package rabbit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// A policy takes the record of a holder that is still the reader, while it verifies. Once B is claimed, that is proof.
func TestVerificationThatLacksItsRecordIsOneOfB(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, first := holding(t, id, long) // one that makes the ledger has B from the start
	must(t, first.Release(within(t)))
	setPolicy(t, id, "-1-T$", `[{<<"message-ttl">>, 1000}]`) // for what is written from now on
	_, h := claimed(t, id, 2*time.Second)
	rabbit.TakeBAfter(h, 2*time.Second)
	must(t, h.Ready(within(t)))
	eventually(t, "B is claimed", func() bool {
		if err := h.Verify(within(t)); err != nil && !errors.Is(err, lock.ErrInDoubt) { // of the ledger, with B proven
			t.Fatal(err)
		}
		return rabbit.HoldsB(h)
	})
	must(t, h.Release(within(t)))
}

// A policy takes the holder's record out of the ledger, and leaves that of a successor that has left. That one
// has waited for a holder, and says nothing of it: a newcomer does not start while it may live.
func TestReleaseOfAWaiterDoesNotSpeakForALostRecord(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]struct{ before, after string }{
		"too old when it is put back":      {`[{<<"message-ttl">>, 3000}]`, `[{<<"message-ttl">>, 3600000}]`},
		"pushed out by the waiter's leave": {`[{<<"max-length">>, 2}]`, `[{<<"max-length">>, 2}]`},
	} {
		for _, died := range []bool{false, true} {
			t.Run(what+map[bool]string{true: ", and the waiter has died"}[died], func(t *testing.T) {
				t.Parallel()
				id := fresh(lock.Mutex)
				setPolicy(t, id, "-1-T$", lose.before)
				l, h := holding(t, id, long)
				setPolicy(t, id, "-1-T$", lose.after) // what the waiter writes is kept
				left := successorLeaves(t, id, lose.before != lose.after, died)
				vanish(t, l)
				_, newcomer := claimed(t, id, long)
				waits(t, newcomer)
				must(t, rabbit.ExecuteWill(within(t), h.Handover().Will))
				if left == 0 || newcomer.Term() != 0 {
					t.Errorf("term %d of a waiter, term %d of a newcomer that has waited for nobody", left, newcomer.Term())
				}
			})
		}
	}
}

// successorLeaves has a berth be the successor for a lock until its holder's record was dropped, which is told of, and
// returns its term.
func successorLeaves(t *testing.T, id lock.ID, dropped, died bool) (told int) {
	t.Helper()
	cfg, said := journal()
	cfg.Heartbeat = time.Second // it proves its place often
	next := backend(t, cfg).Lock(id)
	must(t, next.Connect(within(t)))
	if _, err := next.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	waited := make(chan error, 1)
	go func() { waited <- next.Wait(ctx, time.Hour) }()
	handover := <-next.Handovers()
	if dropped {
		eventually(t, "it is told that a record was dropped", func() bool { return said("not delivered again") > 0 })
	}
	if died {
		rabbit.CutContender(next)
	}
	cancel()
	<-waited
	_ = next.Close()
	if died {
		must(t, rabbit.ExecuteWill(within(t), handover.Will))
	}
	return handover.Slot
}

// A waiter whose ledger tells only of others that have left gives the slot back to a holder that lives.
func TestHolderWhoseRecordWasLostReclaims(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	setPolicy(t, id, "-1-T$", `[{<<"max-length">>, 2}]`)
	_, h := holding(t, id, long)
	successorLeaves(t, id, false, false)
	lost := h.Lost()
	rabbit.CutConnection(h)
	<-lost
	_, newcomer := claimed(t, id, long)
	ready := make(chan error, 1)
	go func() { ready <- errors.Join(newcomer.Ready(within(t)), newcomer.Release(within(t))) }()
	succeeds(t, "verification", func() error { return proven(within(t), h) })
	if err := <-ready; !errors.Is(err, lock.ErrFull) {
		t.Errorf("the newcomer's Ready: %v", err)
	}
}

// A record that was late, and the release of its writer, which has left, arrive in a ledger that was purged. It is the
// same if the release comes when the record was read already.
func TestLateRecordOfOneThatHasLeftSaysNothingOfOthers(t *testing.T) {
	t.Parallel()
	early := written(`{"record":"released","term":5,"id":"somebody","early":true}`)
	for what, test := range map[string]func(t *testing.T, id lock.ID) lock.Held{
		"both are there": func(t *testing.T, id lock.ID) lock.Held {
			appendTo(t, id.Name+"-1-T", early)
			_, newcomer := claimed(t, id, long)
			return newcomer
		},
		"the release comes later": func(t *testing.T, id lock.ID) lock.Held {
			_, newcomer := claimed(t, id, long)
			appendTo(t, id.Name+"-1-T", early)
			return newcomer
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			waits(t, test(t, ledgerWith(t, heldBy(5, time.Second))))
		})
	}
}

// Somebody waits away from the reader's place with the holder's record in hand. Others who come meanwhile do not see
// it.
func TestRecordInSomebodysHandIsNotTakenForLost(t *testing.T) {
	t.Parallel()
	id := ledgerWith(t, heldBy(5, time.Minute))
	_, first := claimed(t, id, time.Second)
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = first.Ready(ctx)
	}()
	defer func() { cancel(); <-ended }()
	cfg, said := journal()
	for term := range 5 {
		appendTo(t, id.Name+"-1-T", releaseOf(uint64(100+term)))
		visits(t, cfg, id)
	}
	if said("policies") > 0 {
		t.Error("a policy is suspected that is not there")
	}
}

// visits has a berth take the reader's place of a lock that is held, and go.
func visits(t *testing.T, cfg rabbit.Config, id lock.ID) {
	t.Helper()
	l := backend(t, cfg).Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(within(t), 200*time.Millisecond)
	defer cancel()
	_ = l.Wait(ctx, time.Hour)
}

func TestWaiterNamesWhoIsNotReleased(t *testing.T) {
	t.Parallel()
	id := ledgerWith(t, heldBy(5, time.Minute),
		written(`{"record":"held","term":6,"id":"left","host":"elsewhere"}`),
		written(`{"record":"released","term":6,"id":"left"}`))
	cfg, said := journal()
	cfg.Heartbeat = time.Second
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	waits(t, h)
	if said("host=there") == 0 || said("host=elsewhere") > 0 {
		t.Error("it does not say whom it waits for")
	}
}
