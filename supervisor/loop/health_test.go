package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
)

// checkRuns are the checks that the supervisor begins. Each runs until the test has it end, or ends it in no time by itself.
type checkRuns chan *fakeCheck

type fakeCheck struct {
	ctx     context.Context
	start   supervisor.Start
	renewed <-chan boottime.Instant
	end     chan supervisor.Verdict
}

var (
	success = supervisor.Verdict{Outcome: supervisor.CheckSucceeded}
	failure = supervisor.Verdict{Outcome: supervisor.CheckFailed, Problem: "it ended with 1"}
	unknown = supervisor.Verdict{Outcome: supervisor.CheckUnknown, Problem: "its guard died"}
)

func (c checkRuns) check(ctx context.Context, start supervisor.Start, renewed <-chan boottime.Instant) supervisor.Verdict {
	check := &fakeCheck{ctx, start, renewed, make(chan supervisor.Verdict, 1)}
	c <- check
	return <-check.end
}

// next returns the next check.
func (c checkRuns) next(t *testing.T) *fakeCheck {
	t.Helper()
	select {
	case check := <-c:
		return check
	case <-time.After(patience):
		t.Fatal("no check was begun")
		return nil
	}
}

// end has the next checks end so.
func (c checkRuns) end(t *testing.T, verdicts ...supervisor.Verdict) {
	t.Helper()
	for _, v := range verdicts {
		c.next(t).end <- v
	}
}

// ofCommand returns the next check of the command. One of the host may have begun just before the command was started.
func (c checkRuns) ofCommand(t *testing.T) *fakeCheck {
	t.Helper()
	for {
		check := c.next(t)
		if slices.Contains(check.start.Vars, "BERTH_REASON=running") {
			return check
		}
		check.end <- success
	}
}

func (c *fakeCheck) awaitKill(t *testing.T) {
	t.Helper()
	select {
	case <-c.ctx.Done():
	case <-time.After(patience):
		t.Fatal("the check is not killed")
	}
}

// awaitTERM waits for the first step of a sequence. Whom it is for is of no matter here.
func (g *fakeGuard) awaitTERM(t *testing.T) {
	t.Helper()
	select {
	case got := <-g.orders:
		if !strings.HasPrefix(got, "TERM ") {
			t.Fatalf("the guard was told %q, want TERM", got)
		}
	case <-time.After(patience):
		t.Fatal("the guard was not told TERM")
	}
}

// checked starts a supervisor whose command is checked all the time, and unhealthy after two failures.
func checked(t *testing.T, lease time.Duration, change func(*bench, *supervisor.Config)) (*bench, checkRuns) {
	t.Helper()
	all := make(checkRuns, 10)
	return newBench(t, lease, func(b *bench, cfg *supervisor.Config) {
		cfg.Health = supervisor.Health{Check: all.check, Interval: time.Millisecond, Retries: 2}
		cfg.OnLoss = supervisor.Retry
		if change != nil {
			change(b, cfg)
		}
	}), all
}

func exits(_ *bench, cfg *supervisor.Config) { cfg.OnLoss = supervisor.NoRetry }

func restarts(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.OnFailure }

func TestCommandThatHangsGivesTheSlotBack(t *testing.T) {
	b, all := checked(t, 0, nil)
	g := b.running()
	check := all.next(t)
	mustContain(t, check.start.Vars, "BERTH_NAME=m", "BERTH_SLOT=1", "BERTH_REASON=running")
	check.end <- failure
	all.end(t, success, failure, unknown, failure) // one that is not known neither counts nor excuses
	g.awaitTERM(t)
	g.awaitOrder(t, "kill")
	b.wantHeld("while it lives")
	g.dies(kill, 0)
	eventually(t, "the slot is free", func() bool { return b.another() == nil })
	b.signals <- unix.SIGTERM
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v: it does not queue up again", o)
	}
}

func TestUnhealthyCommandEndsBerthWhereALossWould(t *testing.T) {
	for name, change := range map[string]func(*bench, *supervisor.Config){
		"on-loss exit": exits,
		"try":          func(_ *bench, cfg *supervisor.Config) { cfg.Try = true },
	} {
		b, all := checked(t, 0, change)
		g := b.running()
		all.end(t, failure, failure)
		g.awaitTERM(t)
		g.dies(0, 0) // how it ends is no excuse
		if o := b.end(); o.Status != supervisor.ExitCut || !errors.Is(o.Err, supervisor.ErrUnhealthy) {
			t.Errorf("%s: outcome %+v", name, o)
		}
		b.wantFree(name)
	}
}

func TestHealthyCommandIsRestartedInItsSlotAndAnotherIsNot(t *testing.T) {
	b, all := checked(t, 0, restarts)
	g := b.running()
	all.end(t, success, failure, failure)
	g.awaitTERM(t)
	g.dies(0, 0)
	g = b.guard()
	b.wantHeld("between the runs")
	g.begin(t)
	all.end(t, failure, failure) // the failures of the last run do not count, nor its health
	g.awaitTERM(t)
	g.dies(0, 0)
	eventually(t, "the slot is free", func() bool { return b.another() == nil })
	b.signals <- unix.SIGTERM
	b.end()
}

func TestFailuresInTheStartPeriodDoNotCountUntilACheckHasSucceeded(t *testing.T) {
	b, all := checked(t, 0, func(b *bench, cfg *supervisor.Config) {
		exits(b, cfg)
		cfg.Health.StartPeriod = time.Hour
	})
	g := b.running()
	all.end(t, failure, failure, failure, success, failure, failure)
	g.awaitTERM(t)
	g.dies(0, 0)
	b.end()
}

// Whatever ends the command ends the check at once, and nobody else gets the slot before it is dead.
func TestSlotIsNotGivenBackWhileACheckIsAlive(t *testing.T) {
	for name, c := range map[string]struct {
		cause  func(*bench, *fakeGuard)
		signal bool // is sent to the command
	}{
		"the command ends":  {func(*bench, *fakeGuard) {}, false},
		"a signal":          {func(b *bench, _ *fakeGuard) { b.signals <- unix.SIGTERM }, true},
		"a step-down":       {func(b *bench, _ *fakeGuard) { b.stepDown() }, true},
		"a loss":            {func(b *bench, _ *fakeGuard) { b.backend.ReportLost(mutex, lock.ErrLost) }, true},
		"its guard is dead": {func(_ *bench, g *fakeGuard) { g.gone() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, all := checked(t, 0, func(b *bench, cfg *supervisor.Config) { cfg.Stop = steps(t, "TERM 10s, KILL") })
			g := b.running()
			check := all.next(t)
			c.cause(b, g)
			if c.signal {
				g.awaitTERM(t)
				check.awaitKill(t)
			}
			if name != "its guard is dead" {
				g.dies(0, 3)
			}
			check.awaitKill(t)
			if name != "a loss" {
				b.wantHeld("while the check is alive")
			}
			if n := b.backend.Calls(locktest.Release); n != 0 {
				t.Errorf("it was given back %d times", n)
			}
			check.end <- failure
			eventually(t, "the slot is given back", func() bool { return b.backend.Calls(locktest.Release) == 1 })
			b.signals <- unix.SIGTERM
			b.end()
		})
	}
}

func TestSignalsAfterTheCommandsDeathDoNotWaitForACheck(t *testing.T) {
	said := &page{}
	b, all := checked(t, time.Minute, func(_ *bench, cfg *supervisor.Config) { cfg.Log = said.logger() })
	g := b.running()
	check := all.next(t)
	g.dies(0, 3)
	check.awaitKill(t)
	b.signals <- unix.SIGTERM
	g.awaitTERM(t) // of which nobody is left
	n := len(g.renewed())
	verified := b.backend.Calls(locktest.Verify)
	eventually(t, "the stop sequence is over", func() bool { return b.backend.Calls(locktest.Verify) > verified+5 })
	if len(g.renewed()) != n || len(g.orders) > 0 {
		t.Error("the guard of a dead command is told something")
	}
	check.end <- success
	if o := b.end(); o.Status != 3 || said.count("guard") != 0 {
		t.Errorf("outcome %+v, and it says %q", o, said.text.String())
	}
}

func TestFrozenCommandIsNotJudged(t *testing.T) {
	b, all := checked(t, time.Minute, func(b *bench, cfg *supervisor.Config) {
		freezes(b, cfg)
		exits(b, cfg)
		cfg.Health.Retries = 1
	})
	g := b.running()
	check := all.next(t)
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
	g.awaitOrder(t, "freeze")
	check.awaitKill(t)
	check.end <- failure
	select {
	case <-all:
		t.Error("it is judged while it is frozen")
	case <-time.After(50 * time.Millisecond):
	}
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{})
	g.awaitOrder(t, "thaw")
	all.end(t, success)
	all.end(t, failure)
	g.awaitTERM(t)
	g.dies(0, 0)
	b.end()
}

func TestChecksDeadlineIsTheSlots(t *testing.T) {
	b, all := checked(t, time.Minute, nil)
	g := b.running()
	check := all.next(t)
	if check.start.Deadline == 0 {
		t.Error("it has none")
	}
	select {
	case later := <-check.renewed:
		if later <= check.start.Deadline {
			t.Errorf("from %d it is set to %d", check.start.Deadline, later)
		}
	case <-time.After(patience):
		t.Error("it is not renewed")
	}
	b.signals <- unix.SIGTERM
	check.awaitKill(t)
	check.end <- failure
	g.dies(0, 0)
	b.end()
}

// The will of the command's guard says that nothing runs in the slot, and is executed when this process cannot any more.
func TestCommandsGuardSeesThatACheckRuns(t *testing.T) {
	b, all := checked(t, time.Minute, nil)
	g := b.guard()
	start := g.begin(t)
	if start.Last {
		t.Error("it gives the slot back by itself")
	}
	nobody := func() bool { return free(t, start.Beside) }
	check := all.next(t)
	if len(check.start.Files) != 1 || nobody() {
		t.Error("it sees none")
	}
	b.signals <- unix.SIGTERM
	g.awaitTERM(t)
	check.awaitKill(t)
	if nobody() {
		t.Error("it sees none, before its tree is dead")
	}
	check.end <- failure
	eventually(t, "it sees that nothing runs", nobody)
	g.dies(0, 0)
	b.end()
}

// free reports whether nothing runs beside a command, as its guard sees that, which locks the file for itself then.
func free(t *testing.T, file *os.File) bool {
	t.Helper()
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		t.Error(err)
	}
	return err == nil
}

// A proof that came at the last moment moves the deadline of a command whose guard has killed it already, and has said
// that nothing runs. What the guard tells of that can be a moment later.
func TestNoCheckBeginsOnceTheCommandsGuardHasSaidThatNothingRuns(t *testing.T) {
	b, all := checked(t, time.Minute, restarts)
	g := b.guard()
	start := g.begin(t)
	eventually(t, "nothing runs, between two checks", func() bool {
		select {
		case check := <-all:
			check.end <- success
		default:
		}
		return free(t, start.Beside)
	})
	n := len(g.renewed())
	eventually(t, "there was time for checks", func() bool { return len(g.renewed()) > n+5 })
	if len(all) > 0 {
		t.Error("a check begins")
		(<-all).end <- success
	}
	g.dies(0, 3)
	g = b.guard()
	g.begin(t)
	all.end(t, success) // that was of the last run
	b.signals <- unix.SIGTERM
	g.awaitTERM(t)
	g.dies(0, 0)
	b.end()
}

func TestHooksAreToldWhyTheCommandWasEnded(t *testing.T) {
	for reason, change := range map[string]func(*supervisor.Config, checkRuns){
		"unhealthy": func(cfg *supervisor.Config, all checkRuns) {
			cfg.Health = supervisor.Health{Check: all.check, Interval: time.Millisecond, Retries: 1}
		},
		"max-run": func(cfg *supervisor.Config, _ checkRuns) { cfg.MaxRun = time.Millisecond },
	} {
		all := make(checkRuns, 10)
		b := hooked(t, 0, func(cfg *supervisor.Config) { change(cfg, all) }, supervisor.OnRelease)
		g := b.running()
		if reason == "unhealthy" {
			all.end(t, failure)
		}
		g.awaitTERM(t)
		g.dies(0, 0)
		b.hook("BERTH_REASON="+reason).dies(0, 0)
		if o := b.end(); o.Status != supervisor.ExitCut {
			t.Errorf("%s: outcome %+v", reason, o)
		}
	}
}

func TestHealthIsReported(t *testing.T) {
	said := make(recorder, 100)
	b, all := checked(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Tally = said })
	g := b.running()
	check := all.next(t)
	if health := b.report().Health; health != string(supervisor.HealthStarting) {
		t.Errorf("before the first check it is %q", health)
	}
	check.end <- success
	check = all.next(t)
	if health := b.report().Health; health != string(supervisor.Healthy) {
		t.Errorf("then it is %q", health)
	}
	check.end <- failure
	all.end(t, failure)
	g.awaitTERM(t)
	if health := b.report().Health; health != string(supervisor.Unhealthy) {
		t.Errorf("in the end it is %q", health)
	}
	g.dies(0, 0)
	b.signals <- unix.SIGTERM
	b.end()
	close(said)
	var counted []string
	for what := range said {
		switch what {
		case "success", "failure", "unhealthy":
			counted = append(counted, what)
		}
	}
	if got := fmt.Sprint(counted); got != "[success failure failure unhealthy]" {
		t.Errorf("counted %s", got)
	}
}
