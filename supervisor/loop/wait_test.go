package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
)

func TestWaiterGetsTheSlotWhenItIsFree(t *testing.T) {
	release := func() {}
	b := newBench(t, 0, func(b *bench, _ *supervisor.Config) { release = b.holdLock() })
	eventually(t, "it waits", func() bool { return b.backend.Calls(locktest.Wait) > 2 })
	release()
	g := b.running()
	g.dies(0, 0)
	b.end()
}

func TestWaiterIsToldHowToMakeTheLock(t *testing.T) {
	for _, c := range []struct {
		kind          lock.Kind
		command, hint string
	}{
		{lock.Semaphore, "make m --here", `the lock does not exist: create_it_with="make m --here"`},
		{lock.Semaphore, "", "the lock does not exist\n"},
		{lock.PersistentMutex, "make m --here", `the lock is disabled: enable_it_with="make m --here"`},
	} {
		said := &page{}
		b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
			cfg.Log, cfg.CreateCommand, cfg.ID.Kind = said.logger(), c.command, c.kind
			b.backend.InjectAlways(locktest.Acquire, locktest.Fault{Before: lock.ErrAbsent})
		})
		eventually(t, "it is told", func() bool { return said.count(c.hint) == 1 })
		b.signals <- unix.SIGTERM
		b.end()
	}
}

func TestTryMakesOneAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		op  locktest.Op
		err error
	}{
		"full":        {locktest.Acquire, lock.ErrFull},
		"absent":      {locktest.Acquire, lock.ErrAbsent},
		"unknown":     {locktest.Acquire, lock.ErrUnknown},
		"unreachable": {locktest.Connect, lock.ErrUnreachable},
		"broke":       {locktest.Acquire, lock.ErrUnreachable},
		"denied":      {locktest.Connect, lock.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
				cfg.Try = true
				b.backend.InjectAlways(c.op, locktest.Fault{Before: c.err})
			})
			if o := b.end(); !errors.Is(o.Err, c.err) {
				t.Errorf("outcome %+v, want %v", o, c.err)
			}
			if n := b.backend.Calls(c.op); n != 1 {
				t.Errorf("%d calls of %s, want 1", n, c.op)
			}
		})
	}
}

func TestTimeoutSaysWhatWasInTheWay(t *testing.T) {
	block := make(chan struct{}) // never closed
	for name, c := range map[string]struct {
		op    locktest.Op
		fault locktest.Fault
		want  error
	}{
		"full":                    {locktest.Acquire, locktest.Fault{Before: lock.ErrFull}, lock.ErrFull},
		"unreachable":             {locktest.Connect, locktest.Fault{Before: lock.ErrUnreachable}, lock.ErrUnreachable},
		"never connected":         {locktest.Connect, locktest.Fault{Block: block}, lock.ErrUnknown},
		"no answer to an attempt": {locktest.Acquire, locktest.Fault{Block: block}, lock.ErrUnknown},
		"last holder unknown":     {locktest.Ready, locktest.Fault{Block: block}, lock.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
				cfg.Timeout = 100 * time.Millisecond
				b.backend.InjectAlways(c.op, c.fault)
			})
			if o := b.end(); !errors.Is(o.Err, c.want) {
				t.Errorf("outcome %+v, want %v", o, c.want)
			}
			if err := b.another(); err != nil {
				t.Errorf("afterwards another gets: %v", err)
			}
		})
	}
}

func TestTimeoutOfATakeoverSaysWhatThatWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		b.holdLock()
		cfg.Timeout = time.Second
		cfg.Takeover = func(ctx context.Context, _ int, tell func(string)) error {
			tell("the ready file")
			<-ctx.Done()
			return ctx.Err()
		}
	})
	if o := b.end(); !errors.Is(o.Err, lock.ErrFull) || !strings.Contains(o.Err.Error(), "waiting for the ready file") {
		t.Errorf("outcome %+v", o)
	}
}

func TestTimeoutThatPassesWhileTheSlotIsGivenBackEndsBerth(t *testing.T) {
	block := make(chan struct{})
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		cfg.Timeout = 50 * time.Millisecond
		b.backend.InjectAlways(locktest.Ready, locktest.Fault{Before: lock.ErrFull})
		b.backend.InjectAlways(locktest.Release, locktest.Fault{Block: block})
	})
	eventually(t, "the slot is being given back", func() bool { return b.backend.Calls(locktest.Release) > 0 })
	passed := time.Now().Add(2 * 50 * time.Millisecond)
	eventually(t, "the timeout passes", func() bool { return time.Now().After(passed) })
	close(block)
	if o := b.end(); !errors.Is(o.Err, lock.ErrFull) {
		t.Errorf("outcome %+v, want that the slot is held", o)
	}
}

// farAway is a lock whose backend does not answer, and which says so when it is
// no longer to be waited for.
type farAway struct{ lock.Lock }

func (farAway) Connect(ctx context.Context) error {
	<-ctx.Done()
	return lock.Errorf(lock.ErrUnreachable, "gave up connecting: %w", ctx.Err())
}

func TestTimeoutWhileConnectingTellsWhetherNothingWasReached(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Timeout = 50 * time.Millisecond
		cfg.Lock = farAway{cfg.Lock}
	})
	if o := b.end(); !errors.Is(o.Err, lock.ErrUnreachable) || errors.Is(o.Err, lock.ErrUnknown) {
		t.Errorf("outcome %+v", o)
	}
}

func TestTimeoutDoesNotEndACommandThatRuns(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Timeout = 50 * time.Millisecond })
	g := b.running()
	calls := b.backend.Calls(locktest.Verify)
	eventually(t, "several times the timeout pass", func() bool { return b.backend.Calls(locktest.Verify) > calls+8 })
	g.dies(0, 4)
	if o := b.end(); o.Status != 4 {
		t.Errorf("outcome %+v, want 4", o)
	}
}

func TestRefusalAtTheBeginningEndsBerth(t *testing.T) {
	for _, refusal := range []error{lock.ErrDenied, lock.ErrUnsafe} {
		b := newBench(t, 0, func(b *bench, _ *supervisor.Config) {
			b.backend.InjectAlways(locktest.Connect, locktest.Fault{Before: refusal})
		})
		if o := b.end(); !errors.Is(o.Err, refusal) {
			t.Errorf("outcome %+v, want %v", o, refusal)
		}
	}
}

func TestRefusalAfterItWorkedIsWaitedOut(t *testing.T) {
	release := func() {}
	b := newBench(t, 0, func(b *bench, _ *supervisor.Config) { release = b.holdLock() })
	eventually(t, "it waits", func() bool { return b.backend.Calls(locktest.Wait) > 0 })
	b.backend.Inject(locktest.Connect, locktest.Fault{Before: lock.ErrDenied})
	b.backend.Inject(locktest.Wait, locktest.Fault{Before: lock.ErrUnreachable})
	eventually(t, "it connects again", func() bool { return b.backend.Calls(locktest.Connect) > 2 })
	release()
	b.running().dies(0, 0)
	if o := b.end(); o.Err != nil {
		t.Errorf("outcome %+v, want status 0", o)
	}
}

func TestRestartPolicies(t *testing.T) {
	for _, c := range []struct {
		restart supervisor.Restart
		status  int
		again   bool
	}{
		{supervisor.Never, 0, false}, {supervisor.Never, 1, false},
		{supervisor.OnFailure, 0, false}, {supervisor.OnFailure, 1, true},
		{supervisor.Always, 0, true}, {supervisor.Always, 1, true},
	} {
		b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = c.restart })
		g := b.running()
		g.dies(0, c.status)
		if !c.again {
			if o := b.end(); o.Status != c.status {
				t.Errorf("%s: outcome %+v, want %d", c.restart, o, c.status)
			}
			continue
		}
		g = b.guard()
		g.awaitStart(t)
		if n := b.backend.Calls(locktest.Acquire); n != 1 {
			t.Errorf("%s: %d attempts, want the slot to be kept", c.restart, n)
		}
		g.say(wire.Event{Kind: wire.Started, Pid: 43})
		b.signals <- unix.SIGTERM
		g.awaitOrder(t, "TERM head")
		g.dies(term, 0)
		if o := b.end(); o.Status != 143 {
			t.Errorf("%s: outcome %+v, want 143", c.restart, o)
		}
	}
}

func TestCommandEndedAtTheTerminalIsNotRestarted(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.Always })
	g := b.running()
	g.say(wire.Event{Kind: wire.Exited, Status: 2, Terminal: true})
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	if o := b.end(); o.Status != 130 {
		t.Errorf("outcome %+v, want 130", o)
	}
}

func TestBetweenRestartsTheSlotIsWatchedAndSignalsAreHeeded(t *testing.T) {
	for name, c := range map[string]struct {
		what   func(*bench)
		status int
		err    error
	}{
		"signal": {what: func(b *bench) { b.signals <- unix.SIGTERM }, status: 143},
		"loss":   {what: func(b *bench) { b.place.Take(mutex, 1) }, err: lock.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.Always })
			block := make(chan struct{})
			defer close(block)
			g := b.running()
			b.backend.InjectAlways(locktest.Ready, locktest.Fault{Block: block})
			g.dies(0, 1)
			eventually(t, "the command is about to be started again",
				func() bool { return b.backend.Calls(locktest.Ready) > 1 })
			if c.err != nil {
				b.backend.ReportLost(mutex, lock.ErrLost)
			}
			c.what(b)
			if o := b.end(); o.Status != c.status || !errors.Is(o.Err, c.err) {
				t.Errorf("outcome %+v, want %d, %v", o, c.status, c.err)
			}
		})
	}
}
