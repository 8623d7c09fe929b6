package loop

import (
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/lock/locktest"
	"berth/supervisor"
)

func TestEndingSignalWhileTheCommandStartsEndsIt(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.guard()
	g.awaitStart(t)
	b.signals <- unix.SIGTERM
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
}

func TestSignalWhileTheCommandStartsReachesIt(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.guard()
	g.awaitStart(t)
	b.signals <- unix.SIGUSR1
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	g.awaitOrder(t, "USR1 first")
	g.dies(0, 0)
	b.end()
}

func TestSignalsWhileTheCommandStartsAllReachItInOrder(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Stop = steps(t, "TERM 1h, KILL") })
	g := b.guard()
	g.awaitStart(t)
	for _, sig := range []unix.Signal{unix.SIGUSR1, unix.SIGINT, unix.SIGUSR2, unix.SIGTERM} {
		b.signals <- sig
	}
	eventually(t, "the signals are taken", func() bool { return len(b.signals) == 0 })
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	for _, want := range []string{"USR1 first", "INT head", "USR2 first", "TERM head"} {
		g.awaitOrder(t, want)
	}
	g.dies(term, 0)
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
}

func TestSignalWhileWaitingIsNotKeptForALaterCommand(t *testing.T) {
	release := func() {}
	b := newBench(t, 0, func(b *bench, _ *supervisor.Config) { release = b.holdLock() })
	defer release()
	eventually(t, "an attempt", func() bool { return b.backend.Calls(locktest.Wait) > 0 })
	b.signals <- unix.SIGUSR1
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	release()
	g := b.running()
	b.signals <- unix.SIGHUP
	g.awaitOrder(t, "HUP first") // and no USR1 before it
	g.dies(0, 0)
	b.end()
}

func TestHangUpEndsAWaiterAtATerminalOnly(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		release := func() {}
		b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
			release = b.holdLock()
			if terminal {
				cfg.Terminal = func() bool { return true }
			}
		})
		eventually(t, "an attempt", func() bool { return b.backend.Calls(locktest.Wait) > 0 })
		b.signals <- unix.SIGHUP
		if !terminal {
			eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
			b.signals <- unix.SIGTERM
		}
		want := map[bool]int{true: 129, false: 143}[terminal]
		if o := b.end(); o.Status != want {
			t.Errorf("at a terminal %v: outcome %+v, want %d", terminal, o, want)
		}
		release()
	}
}

// A HUP that somebody sends is the command's, a reload perhaps. The one that
// comes because the terminal has gone ends the command, stopped or not, and berth.
func TestHangUpOfTheTerminalEndsTheCommandForGood(t *testing.T) {
	var gone atomic.Bool
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Restart = supervisor.Always
		cfg.Terminal = func() bool { return !gone.Load() }
	})
	g := b.running()
	b.signals <- unix.SIGHUP
	g.awaitOrder(t, "HUP first")
	gone.Store(true)
	b.signals <- unix.SIGHUP
	g.awaitOrder(t, "HUP tree")
	g.dies(unix.SIGHUP, 0)
	if o := b.end(); o.Status != 129 {
		t.Errorf("outcome %+v, want 129", o)
	}
}

// The session's leader may be a script, which tells nobody.
func TestTerminalThatTheCommandHadEndsBerthWhenItGoes(t *testing.T) {
	var gone atomic.Bool
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Restart = supervisor.Always
		cfg.Terminal = func() bool { return !gone.Load() }
	})
	g := b.running()
	gone.Store(true)
	g.say(wire.Event{Kind: wire.HungUp})
	g.awaitOrder(t, "HUP tree")
	g.dies(unix.SIGHUP, 0)
	if o := b.end(); o.Status != 129 {
		t.Errorf("outcome %+v, want 129", o)
	}
}

func TestCommandThatEndsWithTheTerminalIsNotStartedAgain(t *testing.T) {
	var gone atomic.Bool
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Restart = supervisor.Always
		cfg.Terminal = func() bool { return !gone.Load() }
	})
	g := b.running()
	b.signals <- unix.SIGHUP // told a moment before it is gone
	g.awaitOrder(t, "HUP first")
	gone.Store(true)
	g.dies(unix.SIGHUP, 0)
	if o := b.end(); o.Status != 129 {
		t.Errorf("outcome %+v, want 129", o)
	}
}

// HUP that has the command reload its configuration says nothing of a terminal
// that goes away later.
func TestHUPLongBeforeTheTerminalsEndMeansNothingToIt(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	var looks atomic.Int32
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Restart = supervisor.Always
		cfg.Terminal = func() bool { looks.Add(1); return !gone.Load() }
	})
	g := b.running()
	b.signals <- unix.SIGHUP
	g.awaitOrder(t, "HUP first")
	eventually(t, "it has looked for the terminal again", func() bool { return looks.Load() == 2 })
	gone.Store(true)
	g.dies(0, 1)
	g = b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	b.end()
}

func TestSignalsAreRewritten(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Rewrites = map[unix.Signal]unix.Signal{
			unix.SIGHUP: unix.SIGUSR2, unix.SIGWINCH: 0, unix.SIGTERM: unix.SIGQUIT,
		}
	})
	g := b.running()
	for _, sig := range []os.Signal{unix.SIGWINCH, unix.SIGHUP, unix.SIGTERM} {
		b.signals <- sig
	}
	g.awaitOrder(t, "USR2 first")
	g.awaitOrder(t, "QUIT head")
	g.dies(unix.SIGQUIT, 0)
	if o := b.end(); o.Status != 131 {
		t.Errorf("outcome %+v, want 131", o)
	}
}

func TestSuspendedCommandIsContinuedByTheSameKey(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.running()
	b.signals <- unix.SIGTSTP
	g.awaitOrder(t, "TSTP group")
	g.say(wire.Event{Kind: wire.Suspended})
	eventually(t, "the event is taken", func() bool { return len(g.events) == 0 })
	b.signals <- unix.SIGTSTP
	g.awaitOrder(t, "CONT group")
	b.signals <- unix.SIGTSTP
	g.awaitOrder(t, "TSTP group")
	g.dies(0, 0)
	b.end()
}
