package loop

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
)

// A command that has done its work is not to do it again, or to be reported as
// broken off, because the slot is lost while its leftovers are being ended.
func TestLossAfterTheCommandHasEndedChangesNothing(t *testing.T) {
	for _, policy := range []supervisor.OnLoss{supervisor.NoRetry, supervisor.Retry} {
		b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
			cfg.OnLoss = policy
			cfg.Stop = steps(t, "TERM 1h, KILL")
		})
		g := b.running()
		g.say(wire.Event{Kind: wire.Exited, Status: 3 << 8, Left: true})
		g.awaitOrder(t, "TERM tree")
		b.place.Take(mutex, 1)
		g.awaitOrder(t, "TERM tree") // the loss sequence
		g.say(wire.Event{Kind: wire.Dead})
		g.gone()
		if o := b.end(); o.Status != 3 || o.Err != nil {
			t.Errorf("--on-loss %s: outcome %+v, want 3", policy, o)
		}
	}
}

func TestLossOfACommandToBeRestartedQueuesUpAgain(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.OnLoss, cfg.Restart = supervisor.Retry, supervisor.OnFailure
		cfg.Stop = steps(t, "TERM 1h, KILL")
	})
	g := b.running()
	g.say(wire.Event{Kind: wire.Exited, Status: 3 << 8, Left: true})
	g.awaitOrder(t, "TERM tree")
	b.place.Take(mutex, 1)
	g.awaitOrder(t, "TERM tree")
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	b.running().dies(0, 0)
	if o := b.end(); o.Status != 0 || o.Err != nil {
		t.Errorf("outcome %+v, want 0", o)
	}
	if n := b.backend.Calls(locktest.Acquire); n < 2 {
		t.Errorf("%d attempts, want another slot", n)
	}
}

func TestTryMakesNoSecondAttemptAfterALoss(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Try, cfg.OnLoss = true, supervisor.Retry })
	g := b.running()
	b.place.Take(mutex, 1)
	g.awaitOrder(t, "TERM tree")
	g.dies(term, 0)
	if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
		t.Errorf("outcome %+v, want a loss", o)
	}
}

func TestSlotThatIsLostBeforeTheFirstStartIsNotObtained(t *testing.T) {
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		cfg.Try = true
		b.backend.InjectAlways(locktest.Ready, locktest.Fault{Before: lock.ErrLost})
	})
	if o := b.end(); !errors.Is(o.Err, lock.ErrUnknown) || errors.Is(o.Err, lock.ErrLost) {
		t.Errorf("outcome %+v, want that it was not obtained", o)
	}
}

// What was in the way before the slot was won is in the way no longer.
func TestTimeoutInTheHandoverWaitTellsOfThatAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		op    locktest.Op
		fault error
	}{
		"it was not reached at first":   {locktest.Connect, lock.ErrUnreachable},
		"another slot was lost in that": {locktest.Ready, lock.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			block := make(chan struct{}) // never closed
			b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
				cfg.Timeout = time.Second
				b.backend.Inject(c.op, locktest.Fault{Before: c.fault})
				b.backend.InjectAlways(locktest.Ready, locktest.Fault{Block: block})
			})
			o := b.end()
			if !errors.Is(o.Err, lock.ErrUnknown) || errors.Is(o.Err, c.fault) {
				t.Errorf("outcome %+v", o)
			}
			if b.backend.Calls(locktest.Ready) == 0 {
				t.Error("no slot was won: this test tests nothing")
			}
		})
	}
}

func TestCommandThatWasNeverStartedHasNoStatus(t *testing.T) {
	b := newBench(t, time.Minute, nil)
	g := b.guard()
	g.awaitStart(t)
	g.say(wire.Event{Kind: wire.Accepted})
	b.signals <- unix.SIGTERM
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	g.say(wire.Event{Kind: wire.Overdue}) // the order came too late
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	if o := b.end(); o.Status != 143 || o.Err != nil {
		t.Errorf("outcome %+v, want 143", o)
	}
}

func TestGuardsThatDieNowAndThenAreReplacedForEver(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.OnFailure })
	for range 3 {
		for range 2 {
			g := b.guard()
			g.awaitStart(t)
			g.gone()
		}
		b.running().dies(0, 1)
	}
	b.running().dies(0, 0)
	if o := b.end(); o.Status != 0 || o.Err != nil {
		t.Errorf("outcome %+v, want 0", o)
	}
}

// callPatience is how long a call may go on in the tests of that.
const callPatience = 100 * time.Millisecond

// A call that was cancelled and has returned is not what a later one is
// measured by.
func TestSlotMayTakeItsTimeToBeGivenBackAfterACallWasCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t, short, func(b *bench, cfg *supervisor.Config) {
		b.env.callPatience = callPatience
		cfg.Restart, cfg.OnLoss = supervisor.Always, supervisor.Retry
	})
	g := b.running()
	verify, release := make(chan struct{}), make(chan struct{})
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Block: verify})
	calls := b.backend.Calls(locktest.Verify)
	eventually(t, "a verification is under way", func() bool { return b.backend.Calls(locktest.Verify) > calls })
	b.backend.InjectAlways(locktest.Release, locktest.Fault{Block: release})
	g.dies(0, 1) // it is started again, for which the verification is cancelled
	eventually(t, "the slot is being given back", func() bool { return b.backend.Calls(locktest.Release) > 0 })
	passed := time.Now().Add(3 * callPatience)
	eventually(t, "that takes longer than a call may go on", func() bool { return time.Now().After(passed) })
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{})
	close(verify)
	close(release)
	g = b.guard() // the one that was ready for the restart
	g.awaitStart(t)
	b.signals <- unix.SIGTERM
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	if o := b.end(); o.Status != 143 || o.Err != nil {
		t.Errorf("outcome %+v, want 143", o)
	}
}

// willing is a lock whose slots have a will.
type willing struct{ lock.Lock }

type willingHeld struct{ lock.Held }

func (w willing) Acquire(ctx context.Context) (lock.Held, error) {
	h, err := w.Lock.Acquire(ctx)
	return willingHeld{h}, err
}

func (willingHeld) Handover() lock.Handover { return lock.Handover{Will: []byte("w")} }

func TestGuardOfTheNextRunHasTheWillUntilTheSlotIsGivenBack(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Restart, cfg.Lock = supervisor.Always, willing{cfg.Lock}
	})
	g := b.running()
	for range 3 {
		g.dies(0, 1)
		g = b.guard()
		g.awaitOrder(t, `will "w"`)
		g.awaitStart(t)
		g.say(wire.Event{Kind: wire.Started, Pid: 42})
	}
	verify := make(chan struct{})
	defer close(verify)
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Block: verify}) // so that it is not started again
	g.dies(0, 1)
	g = b.guard()
	g.awaitOrder(t, `will "w"`)
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, `will ""`)
	g.awaitOrder(t, "retire")
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
}

// inLine is a lock whose contender can be the successor.
type inLine struct {
	lock.Lock
	handovers chan lock.Handover
}

func (l inLine) Handovers() <-chan lock.Handover { return l.handovers }

// A berth that is killed while it launches a hook's guard leaves a slot that is free at once.
func TestCommandsGuardHasTheWillUntilThatOfAHookIsThere(t *testing.T) {
	handovers, will := make(chan lock.Handover), make(chan string, 1)
	var release func()
	var commands *fakeGuard
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		release = b.holdLock()
		cfg.Lock, cfg.HookTimeout = inLine{cfg.Lock, handovers}, patience
		cfg.Launch = func() (supervisor.Guard, error) {
			g, err := b.launch()
			commands = g.(*fakeGuard)
			return g, err
		}
		cfg.Hooks = map[supervisor.Hook]func() (supervisor.Guard, error){
			supervisor.OnAcquire: func() (supervisor.Guard, error) {
				will <- commands.will
				return b.launch()
			},
		}
	})
	g := b.guard()
	handovers <- lock.Handover{Will: []byte("w")}
	g.awaitOrder(t, `will "w"`)
	release()
	hook := b.hook("BERTH_REASON=acquired")
	if had := <-will; had != "w" {
		t.Errorf("while the hook's guard is launched the command's has the will %q", had)
	}
	g.awaitOrder(t, `will ""`)
	hook.dies(0, 0)
	g.begin(t)
	g.dies(0, 0)
	if o := b.end(); o.Status != 0 {
		t.Errorf("outcome %+v, want 0", o)
	}
}

// deaf is a lock whose slots are never given back.
type deaf struct {
	lock.Lock
	heard chan struct{} // closed by the test
}

type deafHeld struct {
	lock.Held
	heard chan struct{}
}

func (d deaf) Acquire(ctx context.Context) (lock.Held, error) {
	h, err := d.Lock.Acquire(ctx)
	return deafHeld{h, d.heard}, err
}

func (d deafHeld) Release(ctx context.Context) error {
	<-d.heard
	return d.Held.Release(ctx)
}

func TestBackendThatDoesNotTakeTheSlotBackDoesNotKeepBerth(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		b.env.callPatience = callPatience
		cfg.Lock = deaf{cfg.Lock, heard}
	})
	b.running().dies(0, 0)
	o := b.end()
	close(heard)
	if !errors.Is(o.Err, lock.ErrUnreachable) {
		t.Errorf("outcome %+v, want that the backend did not answer", o)
	}
}

// What a guard's death says of a command that could not be executed is nothing.
func TestGuardThatDiesAfterARefusedStartIsReplaced(t *testing.T) {
	b := newBench(t, time.Minute, nil)
	g := b.guard()
	g.awaitStart(t)
	g.say(wire.Event{Kind: wire.NotStarted, Errno: unix.ENOENT})
	g.killed()
	g = b.guard()
	g.awaitStart(t)
	g.say(wire.Event{Kind: wire.NotStarted, Errno: unix.ENOENT})
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	if o := b.end(); o.Status != supervisor.ExitNotFound {
		t.Errorf("outcome %+v, want %d", o, supervisor.ExitNotFound)
	}
}
