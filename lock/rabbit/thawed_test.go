package rabbit_test

import (
	"errors"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// A virtual machine was stopped, and its clock with it. When it goes on, others have had the slot, and one has just
// started its command and has no B yet. So the first holder gets B, and is told by the newer one that its time is over.
func TestHolderThatWinsBeforeAYoungCommandHasClaimedIsOver(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, old := holding(t, id, time.Second)
	rabbit.CutConnection(old)
	_, second := claimed(t, id, time.Second)
	start(t, second)
	must(t, second.Release(within(t)))
	_, young := claimed(t, id, time.Second)
	rabbit.TakeBAfter(young, time.Second)
	must(t, young.Ready(within(t)))
	must(t, old.Reclaim(within(t)))
	eventually(t, "the first holder is told that its time is over", func() bool { return errors.Is(old.Cause(), lock.ErrOver) })
	must(t, old.Release(within(t)))
	awaitB(t, young)
}
