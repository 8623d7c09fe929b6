package rabbit_test

import (
	"fmt"
	"testing"
	"time"

	"berth/lock/rabbit"
)

// A policy takes the record of a holder that is cut off out of a replicated ledger, once the waiter for it gives it
// back. That one says nothing of it: a newcomer does not start while the holder may live.
func TestReleaseOfAWaiterDoesNotSpeakForALostReplicatedRecord(t *testing.T) {
	t.Parallel()
	for _, died := range []bool{false, true} {
		t.Run(fmt.Sprintf("the waiter has died: %v", died), func(t *testing.T) {
			t.Parallel()
			id := replicated(t, 1)
			setPolicy(t, id, "-Q-1-T$", `[{<<"message-ttl">>, 2000}]`)
			l, _ := startedIn(t, id)
			setPolicy(t, id, "-Q-1-T$", `[{<<"message-ttl">>, 3600000}]`)
			vanish(t, l)
			waiter, next := claimed(t, id, long)
			waits(t, next)
			time.Sleep(3 * time.Second) // in somebody's hand nothing shows that a record is too old
			if died {
				will := next.Handover().Will
				vanish(t, waiter)
				must(t, rabbit.ExecuteWill(within(t), will))
			} else {
				must(t, next.Release(within(t)))
			}
			_, newcomer := claimed(t, id, long)
			waits(t, newcomer)
		})
	}
}

// Its record may never have been written.
func TestEarlyReleaseWithoutItsRecordKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	appendTo(t, ledgerOf(id), written(`{"record":"released","term":7,"id":"unheard","early":true}`))
	_, h := startedIn(t, id)
	must(t, h.Verify(within(t)))
}

// Others tell of a record that is missing, and so may be more.
func TestReleaseWithoutItsRecordKeepsEverybodyWaiting(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	appendTo(t, ledgerOf(id), written(`{"record":"released","term":7,"id":"unheard"}`))
	_, h := claimed(t, id, long)
	waits(t, h)
}
