package loop

import (
	"context"
	"sync/atomic"
	"testing"

	"berth/supervisor"
)

// Two that take over would ask each other for ever.
func TestWhoHasTakenOverDoesNotAskForTheSlotBack(t *testing.T) {
	var asked atomic.Int32
	var release func()
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		release = b.holdLock()
		cfg.Takeover = func(ctx context.Context, _ int, _ func(string)) error {
			asked.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
	})
	eventually(t, "the holder is asked", func() bool { return asked.Load() == 1 })
	release()
	g := b.running()
	b.stepDown()
	g.dies(term, 0)
	eventually(t, "the slot is given back", func() bool { return b.another() == nil })
	release = b.holdLock()
	eventually(t, "it waits", func() bool { return b.report().State == string(supervisor.Waiting) })
	release()
	b.running().dies(0, 0)
	b.end()
	if n := asked.Load(); n != 1 {
		t.Errorf("it has asked %d times", n)
	}
}
