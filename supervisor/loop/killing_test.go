package loop

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/supervisor"
)

// killingBench is a supervisor with little patience whose guard has begun to kill.
func killingBench(t *testing.T) (*bench, *fakeGuard) {
	t.Helper()
	b := newBench(t, time.Hour, func(b *bench, _ *supervisor.Config) { b.env.guardPatience = 100 * time.Millisecond })
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.awaitOrder(t, "kill")
	g.say(wire.Event{Kind: wire.Killing})
	return b, g
}

// A process in the kernel, or one that may not be signalled, keeps a guard from
// telling of the tree's end that does all it can.
func TestGuardThatOnlyWaitsForAProcessIsNotAbandoned(t *testing.T) {
	b, g := killingBench(t)
	verified := len(g.renewed())
	eventually(t, "it goes on for longer than its patience", func() bool {
		g.say(wire.Event{Kind: wire.Killing}) // again and again, as it does
		return len(g.renewed()) > verified+20
	})
	g.dies(kill, 0)
	if o := b.end(); o.Status != 137 {
		t.Errorf("outcome %+v, want 137", o)
	}
	if len(g.orders) > 0 {
		t.Errorf("the guard was told %q as well", <-g.orders)
	}
}

// One that was frozen meanwhile, for example, would keep the slot for ever.
func TestGuardThatFallsSilentWhileItKillsIsAbandoned(t *testing.T) {
	t.Parallel()
	b, g := killingBench(t)
	g.awaitOrder(t, "abandon")
	g.dies(kill, 0)
	if o := b.end(); o.Status != 137 {
		t.Errorf("outcome %+v, want 137", o)
	}
}
