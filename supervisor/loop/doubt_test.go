package loop

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
)

func freezes(_ *bench, cfg *supervisor.Config) { cfg.OnDoubt = supervisor.Freeze }

func TestCommandIsFrozenWhileInDoubtAndThenGoesOn(t *testing.T) {
	b := newBench(t, time.Minute, freezes)
	g := b.running()
	b.backend.Inject(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown},
		locktest.Fault{After: lock.ErrUnreachable})
	g.awaitOrder(t, "freeze")
	g.awaitOrder(t, "thaw") // and nothing is ended, nor frozen twice
	g.dies(0, 3)
	if o := b.end(); o.Status != 3 || o.Err != nil {
		t.Errorf("outcome %+v, want 3", o)
	}
}

func TestHintWithoutProofFreezesUntilTheSlotWasLookedAt(t *testing.T) {
	b := newBench(t, time.Minute, func(b *bench, cfg *supervisor.Config) {
		cfg.OnDoubt, cfg.VerifyInterval = supervisor.Freeze, time.Minute
	})
	g := b.running()
	b.backend.ReportLost(mutex, lock.ErrInDoubt)
	g.awaitOrder(t, "freeze")
	g.awaitOrder(t, "thaw")
	g.dies(0, 0)
	b.end()
}

// A connection and a claim are many answers, and --verify-timeout is for one.
func TestReclaimGetsTheTimeThereIs(t *testing.T) {
	b := newBench(t, time.Minute, func(b *bench, cfg *supervisor.Config) {
		cfg.OnDoubt, cfg.VerifyInterval = supervisor.Freeze, time.Minute
	})
	g := b.running()
	calls, reclaimed := b.backend.Calls(locktest.Reclaim), make(chan struct{})
	b.backend.Inject(locktest.Reclaim, locktest.Fault{Block: reclaimed})
	b.backend.ReportLost(mutex, lock.ErrInDoubt)
	g.awaitOrder(t, "freeze")
	time.AfterFunc(200*time.Millisecond, func() { close(reclaimed) }) // four times --verify-timeout
	g.awaitOrder(t, "thaw")
	if n := b.backend.Calls(locktest.Reclaim) - calls; n != 1 {
		t.Errorf("%d attempts, though the first would have done", n)
	}
	g.dies(0, 0)
	b.end()
}

// A record that is missing is no doubt that a user hears of, unless it cannot be mended.
func TestDamageThatReclaimMendsDoesNotFreezeTheCommand(t *testing.T) {
	b := newBench(t, time.Minute, freezes)
	g := b.running()
	b.backend.Inject(locktest.Verify, locktest.Fault{Before: lock.ErrInDoubt})
	eventually(t, "it is mended", func() bool { return b.backend.Calls(locktest.Reclaim) == 1 })
	verified := len(g.renewed())
	eventually(t, "the deadline is renewed", func() bool { return len(g.renewed()) > verified })
	if len(g.orders) != 0 {
		t.Errorf("the guard was told %q", <-g.orders)
	}
	b.backend.Inject(locktest.Reclaim, locktest.Fault{Before: lock.ErrInDoubt})
	b.backend.Inject(locktest.Verify, locktest.Fault{Before: lock.ErrInDoubt})
	g.awaitOrder(t, "freeze")
	g.awaitOrder(t, "thaw")
	g.dies(0, 0)
	b.end()
}

func TestDamageThatReclaimDoesNotMendInTimeFreezesTheCommandMeanwhile(t *testing.T) {
	b := newBench(t, time.Minute, freezes)
	g := b.running()
	mended := make(chan struct{})
	b.backend.Inject(locktest.Reclaim, locktest.Fault{Block: mended})
	b.backend.Inject(locktest.Verify, locktest.Fault{Before: lock.ErrInDoubt})
	g.awaitOrder(t, "freeze")
	close(mended)
	g.awaitOrder(t, "thaw")
	if n := b.backend.Calls(locktest.Reclaim); n != 1 {
		t.Errorf("%d attempts, though the first would have done", n)
	}
	g.dies(0, 0)
	b.end()
}

func TestFrozenCommandGetsTheLossSequence(t *testing.T) {
	t.Parallel()
	b := newBench(t, short, freezes)
	g := b.running()
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
	g.awaitOrder(t, "freeze")
	g.awaitOrder(t, "TERM tree")
	g.awaitOrder(t, "thaw")
	g.awaitOrder(t, "kill")
	g.dies(kill, 0)
	if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
		t.Errorf("outcome %+v, want a loss", o)
	}
}

func TestFrozenCommandGetsTheStopSequence(t *testing.T) {
	b := newBench(t, time.Minute, freezes)
	g := b.running()
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
	g.awaitOrder(t, "freeze")
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.awaitOrder(t, "thaw")
	g.awaitOrder(t, "kill")
	g.dies(term, 0)
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
}

func TestDoubtWhileTheCommandStartsIsNoLoss(t *testing.T) {
	for name, doubt := range map[string]func(*bench){
		"told by the backend": func(b *bench) { b.backend.ReportLost(mutex, lock.ErrInDoubt) },
		"not verified":        func(*bench) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, time.Minute, freezes)
			g := b.guard()
			g.awaitStart(t)
			calls := b.backend.Calls(locktest.Verify)
			b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
			doubt(b)
			eventually(t, "the slot is looked at twice",
				func() bool { return b.backend.Calls(locktest.Verify) > calls+1 })
			g.say(wire.Event{Kind: wire.Started, Pid: 42})
			g.awaitOrder(t, "freeze")
			b.backend.InjectAlways(locktest.Verify, locktest.Fault{})
			g.awaitOrder(t, "thaw")
			g.dies(0, 0)
			if o := b.end(); o.Status != 0 || o.Err != nil {
				t.Errorf("outcome %+v, want 0", o)
			}
		})
	}
}

func TestSlotThatItsLastHolderWantsBackIsWaitedForAgain(t *testing.T) {
	wanted := locktest.Fault{Before: lock.ErrFull}
	t.Run("with --on-loss exit", func(t *testing.T) {
		b := newBench(t, 0, func(b *bench, _ *supervisor.Config) { b.backend.Inject(locktest.Ready, wanted, wanted) })
		g := b.running()
		if n := b.backend.Calls(locktest.Release); n != 2 {
			t.Errorf("the slot was given back %d times, not 2", n)
		}
		g.dies(0, 4)
		if o := b.end(); o.Status != 4 || o.Err != nil {
			t.Errorf("outcome %+v, want 4", o)
		}
	})
	t.Run("but not with --try", func(t *testing.T) {
		b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
			cfg.Try = true
			b.backend.Inject(locktest.Ready, wanted)
		})
		if o := b.end(); !errors.Is(o.Err, lock.ErrFull) {
			t.Errorf("outcome %+v, want that the slot is held", o)
		}
		if err := b.another(); err != nil {
			t.Errorf("afterwards another gets: %v", err)
		}
	})
}

func TestCommandBesideThatOfANewerHolderIsKilledAtOnce(t *testing.T) {
	b := newBench(t, time.Minute, nil)
	g := b.running()
	b.backend.ReportLost(mutex, lock.ErrOver)
	g.awaitOrder(t, "kill")
	g.dies(kill, 0)
	if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
		t.Errorf("outcome %+v, want a loss", o)
	}
}
