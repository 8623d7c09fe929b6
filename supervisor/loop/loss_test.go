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

// short is a lease that is waited for, by tests that do so side by side. A machine
// that stands still for as long loses the slot too early.
const short = 2 * time.Second

func TestUnverifiedSlotEndsTheCommandBeforeTheDeadline(t *testing.T) {
	block := make(chan struct{}) // never closed
	for name, fault := range map[string]locktest.Fault{
		"no answer": {Block: block},
		"no proof":  {Before: lock.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, short, nil)
			g := b.running()
			b.backend.InjectAlways(locktest.Verify, fault)
			g.awaitOrder(t, "TERM tree")
			g.awaitOrder(t, "kill")
			g.dies(kill, 0)
			if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
				t.Errorf("outcome %+v, want a loss", o)
			}
		})
	}
}

func TestDoubtThatPassesDoesNotEndTheCommand(t *testing.T) {
	b := newBench(t, time.Minute, nil)
	g := b.running()
	b.backend.Inject(locktest.Verify,
		locktest.Fault{Before: lock.ErrUnknown}, locktest.Fault{Before: lock.ErrUnreachable},
		locktest.Fault{After: lock.ErrUnknown})
	eventually(t, "the slot is verified again", func() bool {
		return b.backend.Calls(locktest.Verify) > 8 && len(g.renewed()) > 3
	})
	if len(g.orders) != 0 {
		t.Errorf("the guard was told %q", <-g.orders)
	}
	g.dies(0, 0)
	if o := b.end(); o.Status != 0 || o.Err != nil {
		t.Errorf("outcome %+v, want status 0", o)
	}
}

func TestProofOfALossEndsTheCommandAtOnce(t *testing.T) {
	lost := errors.Join(lock.ErrLost)
	for name, lose := range map[string]func(*bench){
		"told by a verification": func(b *bench) {
			b.backend.InjectAlways(locktest.Verify,
				locktest.Fault{Before: lost})
		},
		"told by the backend":    func(b *bench) { b.backend.ReportLost(mutex, lost) },
		"taken by somebody else": func(b *bench) { b.place.Take(mutex, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 0, nil)
			g := b.running()
			lose(b)
			g.awaitOrder(t, "TERM tree")
			g.awaitOrder(t, "kill")
			g.dies(kill, 0)
			if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
				t.Errorf("outcome %+v, want a loss", o)
			}
		})
	}
}

// An administrator's removal is no trouble that somebody has to look into.
func TestRemovedSlotIsAWarningThatSaysWhatFollows(t *testing.T) {
	for onLoss, follows := range map[supervisor.OnLoss]string{
		supervisor.Retry: "berth waits for another slot then", supervisor.NoRetry: "berth ends then",
	} {
		said := &page{}
		b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.OnLoss, cfg.Log = onLoss, said.logger() })
		g := b.running()
		b.backend.ReportLost(mutex, lock.Errorf(lock.ErrRemoved, "gone"))
		g.awaitOrder(t, "TERM tree")
		g.dies(term, 0)
		if onLoss == supervisor.Retry {
			b.running().dies(0, 0)
		}
		b.end()
		if said.count("[WARN]  slot removed by an administrator, ending the command; "+follows) != 1 ||
			said.count("[ERROR]") != 0 {
			t.Errorf("%s: it says %q", onLoss, said.text.String())
		}
	}
}

func TestHintWithoutProofIsNoLoss(t *testing.T) {
	b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) { cfg.VerifyInterval = time.Minute })
	g := b.running()
	b.backend.ReportLost(mutex, lock.ErrInDoubt)
	eventually(t, "the slot is reclaimed", func() bool { return b.backend.Calls(locktest.Reclaim) > 0 })
	eventually(t, "the deadline is renewed", func() bool { return len(g.renewed()) > 0 })
	if len(g.orders) != 0 {
		t.Errorf("the guard was told %q", <-g.orders)
	}
	g.dies(0, 0)
	b.end()
}

func TestAfterALossTheCommandRunsAgainInTheNextSlot(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.OnLoss = supervisor.Retry })
	g := b.running()
	b.place.Take(mutex, 1)
	g.awaitOrder(t, "TERM tree")
	g.dies(term, 0)
	g = b.running()
	g.dies(0, 5)
	if o := b.end(); o.Status != 5 {
		t.Errorf("outcome %+v, want 5", o)
	}
}

func TestLossDuringTheStopSequenceShortensIt(t *testing.T) {
	// The second is longer than a time.Duration can be.
	for _, stop := range []string{"TERM 1h, KILL", "TERM 2000000h, INT 2000000h, KILL"} {
		t.Run(stop, func(t *testing.T) {
			b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Stop = steps(t, stop) })
			g := b.running()
			b.signals <- unix.SIGTERM
			g.awaitOrder(t, "TERM head")
			b.place.Take(mutex, 1)
			g.awaitOrder(t, "TERM tree")
			g.awaitOrder(t, "kill")
			g.dies(kill, 0)
			if o := b.end(); o.Status != 137 {
				t.Errorf("outcome %+v, want the command's status 137, because berth was told to end", o)
			}
		})
	}
}

func TestEndingSignalDuringTheLossSequenceEndsBerth(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.OnLoss = supervisor.Retry })
	g := b.running()
	b.place.Take(mutex, 1)
	g.awaitOrder(t, "TERM tree")
	b.signals <- unix.SIGTERM
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	g.dies(term, 0)
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
}

func TestEndingSignalWhileTheSlotIsGivenBackEndsBerth(t *testing.T) {
	block := make(chan struct{})
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		cfg.OnLoss = supervisor.Retry
		b.backend.Inject(locktest.Release, locktest.Fault{Block: block})
	})
	g := b.running()
	b.place.Take(mutex, 1)
	g.awaitOrder(t, "TERM tree")
	g.dies(term, 0)
	eventually(t, "the slot is being given back", func() bool { return b.backend.Calls(locktest.Release) > 0 })
	b.signals <- unix.SIGINT
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	close(block)
	if o := b.end(); o.Status != 130 {
		t.Errorf("outcome %+v, want 130", o)
	}
}

func TestOverdueGuardIsALoss(t *testing.T) {
	b := newBench(t, time.Minute, nil)
	g := b.running()
	g.say(wire.Event{Kind: wire.Overdue})
	g.dies(kill, 0)
	if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
		t.Errorf("outcome %+v, want a loss", o)
	}
}

func TestReleaseThatIsNotConfirmedDoesNotKeepBerth(t *testing.T) {
	b := newBench(t, 0, func(b *bench, _ *supervisor.Config) {
		b.backend.InjectAlways(locktest.Release, locktest.Fault{Before: lock.ErrUnknown})
	})
	g := b.running()
	g.dies(0, 0)
	if o := b.end(); o.Status != 0 || o.Err != nil {
		t.Errorf("outcome %+v, want 0", o)
	}
	if err := b.another(); err != nil {
		t.Errorf("after the end another gets: %v", err)
	}
}

func TestEndingSignalShortensTheLossSequence(t *testing.T) {
	for name, loss := range map[string]string{"a long one": "USR1 1h, KILL", "a short one": "USR1 40ms, KILL"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Loss = steps(t, loss) })
			g := b.running()
			b.backend.ReportLost(mutex, lock.ErrLost)
			g.awaitOrder(t, "USR1 tree")
			b.signals <- unix.SIGINT
			g.awaitOrder(t, "INT tree")
			g.awaitOrder(t, "kill")
			g.dies(kill, 0)
			if o := b.end(); o.Status != 137 {
				t.Errorf("outcome %+v, want 137", o)
			}
		})
	}
}

// The stop sequence waits for a slow start, and is about to kill. Should the command
// start after all, it does not get that sequence from the beginning.
func TestCommandThatStartsLateGetsTheLossSequence(t *testing.T) {
	losing := make(chan struct{}, 1)
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Stop, cfg.Loss = steps(t, "TERM 30s, KILL"), steps(t, "INT 29900ms, KILL")
		cfg.Observer = watcher(func(now supervisor.Situation) {
			if now.State == supervisor.Losing && len(losing) == 0 {
				losing <- struct{}{}
			}
		})
	})
	g := b.guard()
	g.awaitStart(t)
	began := time.Now()
	b.signals <- unix.SIGTERM
	eventually(t, "the stop sequence ends before a loss sequence would", func() bool {
		return len(b.signals) == 0 && time.Since(began) > 150*time.Millisecond
	})
	b.backend.ReportLost(mutex, lock.ErrLost)
	<-losing
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	g.awaitOrder(t, "TERM head")
	g.awaitOrder(t, "TERM rest") // a loss is for all
	g.awaitOrder(t, "INT tree")
	g.dies(2, 0)
	b.end()
}

// watcher is an observer.
type watcher func(supervisor.Situation)

func (w watcher) Observe(now supervisor.Situation) { w(now) }
func (watcher) Beat()                              {}
