package loop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
	"berth/supervisor/machine"
)

func TestCommandRunsInTheSlotAndItsStatusIsTheOutcome(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.guard()
	start := g.awaitStart(t)
	mustContain(t, start.Vars, "BERTH_NAME=m", "BERTH_KIND=mutex", "BERTH_SLOT=1", "BERTH_HOLDER=here:1")
	if start.Deadline != 0 {
		t.Errorf("a slot without a lease has the deadline %d", start.Deadline)
	}
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	g.dies(0, 7)
	if o := b.end(); o.Status != 7 || o.Err != nil {
		t.Errorf("outcome %+v, want status 7", o)
	}
	if err := b.another(); err != nil {
		t.Errorf("after the end another gets: %v", err)
	}
}

// The guard gives the slot back by itself then.
func TestGuardIsToldWhichRunIsTheLastInASlot(t *testing.T) {
	for restart, last := range map[supervisor.Restart]bool{
		supervisor.Never: true, supervisor.OnFailure: false, supervisor.Always: false,
	} {
		b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = restart })
		g := b.guard()
		if start := g.awaitStart(t); start.Last != last {
			t.Errorf("with --restart %s the run is the last one: %t", restart, start.Last)
		}
		b.signals <- unix.SIGTERM
		g.say(wire.Event{Kind: wire.Started, Pid: 42})
		g.dies(unix.SIGTERM, 0)
		b.end()
	}
}

func TestEveryStatusOfTheCommandIsTheOutcome(t *testing.T) {
	for status := range 256 {
		b := newBench(t, 0, nil)
		b.running().dies(0, status)
		if o := b.end(); o.Status != status || o.Err != nil {
			t.Errorf("outcome %+v, want status %d", o, status)
		}
	}
}

func TestSlotIsNotGivenBackBeforeTheTreeIsDead(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.running()
	g.say(wire.Event{Kind: wire.Exited, Left: true})
	g.awaitOrder(t, "TERM tree") // what the command left running
	g.awaitOrder(t, "kill")
	if err := b.another(); !errors.Is(err, lock.ErrFull) {
		t.Errorf("with the tree alive another gets: %v", err)
	}
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	b.end()
	if err := b.another(); err != nil {
		t.Errorf("with the tree dead another gets: %v", err)
	}
}

func TestStopSequenceBeginsWithTheSignalThatCame(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.running()
	b.signals <- unix.SIGINT
	g.awaitOrder(t, "INT head")
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head") // handed on, the sequence goes on
	g.awaitOrder(t, "kill")
	g.dies(unix.SIGINT, 0)
	if o := b.end(); o.Status != 130 {
		t.Errorf("outcome %+v, want 130", o)
	}
}

func TestEndingSignalIsNeverLost(t *testing.T) {
	block := make(chan struct{}) // never closed
	fault := locktest.Fault{Block: block}
	after := locktest.Fault{BlockAfter: block}
	unreachable := locktest.Fault{Before: lock.ErrUnreachable}
	for name, c := range map[string]struct {
		op    locktest.Op
		fault locktest.Fault
	}{
		"connecting":                  {locktest.Connect, fault},
		"connected":                   {locktest.Connect, after},
		"pausing":                     {locktest.Connect, unreachable},
		"attempting":                  {locktest.Acquire, fault},
		"obtained without knowing it": {locktest.Acquire, after},
		"full":                        {locktest.Acquire, locktest.Fault{Before: lock.ErrFull}},
		"waiting for the last holder": {locktest.Ready, fault},
		"verifying before the start":  {locktest.Verify, locktest.Fault{Block: block, Before: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, patience, func(b *bench, cfg *supervisor.Config) {
				b.backend.InjectAlways(c.op, c.fault)
				cfg.VerifyTimeout = patience // the proof that came with the slot leaves no time for the next one
			})
			eventually(t, string(c.op)+" is called", func() bool { return b.backend.Calls(c.op) > 0 })
			b.signals <- unix.SIGTERM
			if o := b.end(); o.Status != 143 || o.Err != nil {
				t.Errorf("outcome %+v, want 143", o)
			}
			g := b.guard()
			select {
			case <-g.started:
				t.Error("the command was started")
			default:
			}
			if err := b.another(); err != nil {
				t.Errorf("afterwards another gets: %v", err)
			}
		})
	}
}

func TestCommandThatCannotBeExecuted(t *testing.T) {
	for errno, status := range map[unix.Errno]int{unix.ENOENT: 127, unix.EACCES: 126, unix.ENOEXEC: 126,
		unix.EPERM: 126} {
		b := newBench(t, 0, nil)
		g := b.guard()
		g.awaitStart(t)
		g.say(wire.Event{Kind: wire.NotStarted, Errno: errno})
		g.say(wire.Event{Kind: wire.Dead})
		g.gone()
		if o := b.end(); o.Status != status || !errors.Is(o.Err, errno) {
			t.Errorf("%v: outcome %+v, want status %d", errno, o, status)
		}
		if err := b.another(); err != nil {
			t.Errorf("%v: afterwards another gets: %v", errno, err)
		}
	}
}

func TestGuardThatDiedIsReplaced(t *testing.T) {
	release, said := func() {}, &page{}
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) { release, cfg.Log = b.holdLock(), said.logger() })
	b.guard().gone() // while waiting
	eventually(t, "an attempt", func() bool { return b.backend.Calls(locktest.Wait) > 0 })
	release()

	g := b.guard()
	g.awaitStart(t)
	g.killed() // before it could say that anything was started

	g = b.running()
	g.dies(0, 3)
	if o := b.end(); o.Status != 3 {
		t.Errorf("outcome %+v, want 3", o)
	}
	if said.count("the guard died before it could start the command") != 1 || said.count("the guard was killed") != 0 {
		t.Errorf("it says %q", said.text.String())
	}
}

// Its command may have run: to start that again would be a second time.
func TestGuardThatDiesWhileItStartsTheCommandIsNotReplaced(t *testing.T) {
	for restart, want := range map[supervisor.Restart]int{supervisor.Never: 128 + 9, supervisor.OnFailure: 0} {
		t.Run(string(restart), func(t *testing.T) {
			said := &page{}
			b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) { cfg.Restart, cfg.Log = restart, said.logger() })
			next := func() *fakeGuard {
				g := b.guard()
				g.awaitStart(t)
				return g
			}
			next().killed()
			g := next()
			g.say(wire.Event{Kind: wire.Silent}) // a moment before
			g.say(wire.Event{Kind: wire.Accepted})
			g.killed()
			if restart == supervisor.OnFailure {
				for range 3 { // as many as may fall in a row: the first one does not count any more
					next().killed()
				}
				b.running().dies(0, 0)
			}
			if o := b.end(); o.Status != want {
				t.Errorf("outcome %+v, want %d", o, want)
			}
			if n := said.count("the guard was killed, and the command with it"); n != 1 {
				t.Errorf("it logs %d times that the guard was killed: %q", n, said.text.String())
			}
		})
	}
}

func TestProcessThatMayNotBeSignalledIsReported(t *testing.T) {
	said := &page{}
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Log = said.logger() })
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.say(wire.Event{Kind: wire.Refused, Pid: 43})
	eventually(t, "it is reported", func() bool { return said.count("[ERROR] a process may not be signalled") == 1 })
	if err := b.another(); !errors.Is(err, lock.ErrFull) {
		t.Errorf("meanwhile another gets: %v", err)
	}
	g.dies(0, 0)
	b.end()
}

func TestProcessThatIsThereAfterKILLIsReported(t *testing.T) {
	said := &page{}
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Log = said.logger() })
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.say(wire.Event{Kind: wire.Lasting, Pid: 43, Left: true, About: "dd, state D in somewhere"})
	g.say(wire.Event{Kind: wire.Lasting, Pid: 44, About: "dd, state Z"})
	for _, line := range []string{
		"[ERROR] KILL does not end a process", `process=43 about="dd, state D in somewhere"`,
		"[WARN]  a process is dead, but its tracer keeps it", `process=44 about="dd, state Z"`,
	} {
		eventually(t, line, func() bool { return said.count(line) == 1 })
	}
	g.dies(0, 0)
	b.end()
}

func TestStartThatDoesNotEndIsKilled(t *testing.T) {
	for name, end := range map[string]func(*bench){
		"signal": func(b *bench) { b.signals <- unix.SIGTERM },
		"loss":   func(b *bench) { b.backend.ReportLost(mutex, lock.ErrLost) },
		"doubt":  func(b *bench) { b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease := time.Minute
			if name == "doubt" {
				lease = short
			}
			b := newBench(t, lease, nil)
			g := b.guard()
			g.awaitStart(t)
			g.say(wire.Event{Kind: wire.Accepted})
			end(b)
			g.awaitOrder(t, "kill")
			g.dies(kill, 0)
			if o := b.end(); name == "signal" && o.Status != 137 || name != "signal" &&
				!errors.Is(o.Err, lock.ErrLost) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

func TestGuardThatWasDeadWhenItGotTheOrderIsReplaced(t *testing.T) {
	b := newBench(t, time.Minute, nil)
	g := b.guard()
	g.awaitStart(t)
	g.gone() // and nothing is told: nothing was started
	b.running().dies(0, 3)
	if o := b.end(); o.Status != 3 || o.Err != nil {
		t.Errorf("outcome %+v, want 3", o)
	}
}

func TestSignalIsKeptForTheGuardThatReplacesADeadOne(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.guard()
	g.awaitStart(t)
	b.signals <- unix.SIGUSR1
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	g.gone()
	g = b.running()
	g.awaitOrder(t, "USR1 first")
	g.dies(0, 0)
	b.end()
}

func TestEveryActionOfTheTableCanBeDone(t *testing.T) {
	_, table, _ := strings.Cut(machine.Diagram(), "| --- | --- | --- |")
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 7 {
			if do := strings.TrimSpace(cells[4]); actions[machine.Action(do)] == nil {
				t.Errorf("nothing does %q", do)
			}
		}
	}
}

func TestGuardsThatDieBeforeTheStartAreReplacedAFewTimesOnly(t *testing.T) {
	b := newBench(t, 0, nil)
	for range 1 + 3 {
		g := b.guard()
		g.awaitStart(t)
		g.gone()
	}
	if o := b.end(); o.Status != supervisor.ExitCannotExecute || o.Err == nil {
		t.Errorf("outcome %+v, want %d and why", o, supervisor.ExitCannotExecute)
	}
	if err := b.another(); err != nil {
		t.Errorf("afterwards another gets: %v", err)
	}
}

func TestEndingSignalWhileADeadGuardIsToStartEndsBerth(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.guard()
	g.awaitStart(t)
	b.signals <- unix.SIGTERM
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	g.gone()
	if o := b.end(); o.Status != 143 || o.Err != nil {
		t.Errorf("outcome %+v, want 143", o)
	}
}

// brokenGuard panics in the middle of a run.
type brokenGuard struct{ *fakeGuard }

func (brokenGuard) Start(supervisor.Start) error { panic("broken") }

func TestPanicDoesNotGiveTheSlotUp(t *testing.T) {
	b := &bench{t: t, place: locktest.NewPlace(), guards: make(chan *fakeGuard, 1)}
	cfg := supervisor.Config{
		ID: mutex, Lock: b.place.Open(0).Lock(mutex), Log: hclog.NewNullLogger(), VerifyTimeout: patience,
		Launch: func() (supervisor.Guard, error) {
			g, err := b.launch()
			return brokenGuard{g.(*fakeGuard)}, err
		},
	}
	m, err := newLoop(cfg, strict)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there was no panic: this test tests nothing")
			}
		}()
		m.run()
	}()
	if err := b.another(); !errors.Is(err, lock.ErrFull) {
		t.Errorf("after a panic another gets: %v", err)
	}
	m.close()
}

func TestDeadlineCountsFromTheStartOfAVerification(t *testing.T) {
	const lease = time.Minute
	block := make(chan struct{})
	b := newBench(t, lease, func(_ *bench, cfg *supervisor.Config) { cfg.VerifyTimeout = patience })
	g := b.running()
	eventually(t, "the deadline is renewed", func() bool { return len(g.renewed()) > 0 })
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{BlockAfter: block})
	calls := b.backend.Calls(locktest.Verify)
	eventually(t, "a verification hangs", func() bool { return b.backend.Calls(locktest.Verify) > calls })
	begun := boottime.Now() // after the start of the verification that hangs
	before := len(g.renewed())
	eventually(t, "some time passes", begun.Add(50*time.Millisecond).Passed)
	close(block)
	eventually(t, "the deadline is renewed again", func() bool { return len(g.renewed()) > before })
	if got, limit := g.renewed()[before], begun.Add(lease); got >= limit {
		t.Errorf("the deadline lies %s behind what the verification proves", time.Duration(got-limit))
	}
	g.dies(0, 0)
	b.end()
}
