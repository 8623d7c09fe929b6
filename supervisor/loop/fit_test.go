package loop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
)

// outcome waits for the supervisor's end. Checks end so until then.
func (c checkRuns) outcome(t *testing.T, b *bench, v supervisor.Verdict) supervisor.Exit {
	t.Helper()
	for {
		select {
		case check := <-c:
			check.end <- v
		case o := <-b.outcome:
			return o
		case <-time.After(patience):
			t.Fatal("the supervisor did not end")
		}
	}
}

func waits(_ *bench, cfg *supervisor.Config) { cfg.Health.WhileWaiting = true }

func TestWaiterTakesNoSlotBeforeItsCheckHasSucceeded(t *testing.T) {
	b, all := checked(t, 0, waits)
	g := b.guard()
	check := all.next(t)
	mustContain(t, check.start.Vars, "BERTH_NAME=m", "BERTH_REASON=waiting")
	check.end <- unknown
	all.end(t, failure, failure, failure)
	check = all.next(t)
	b.wantFree("while nothing is known of it")
	if n := b.backend.Calls(locktest.Acquire); n != 0 {
		t.Errorf("it has tried %d times", n)
	}
	check.end <- success
	g.begin(t)
	b.wantHeld("then")
	b.signals <- unix.SIGTERM
	g.dies(term, 0)
	all.outcome(t, b, success)
}

func TestWaiterThatIsUnfitGivesTheSlotToOthersUntilItIsFitAgain(t *testing.T) {
	var release func()
	b, all := checked(t, 0, func(b *bench, cfg *supervisor.Config) {
		waits(b, cfg)
		release = b.holdLock()
	})
	g := b.guard()
	all.end(t, success)
	eventually(t, "it waits", func() bool { return b.backend.Calls(locktest.Acquire) > 0 })
	all.end(t, failure, failure, failure)
	check := all.next(t)
	release()
	eventually(t, "others get the slot", func() bool { return b.another() == nil })
	wantNotStarted(t, g)
	check.end <- failure
	check = all.next(t)
	wantNotStarted(t, g)
	check.end <- success
	g.begin(t)
	g.dies(0, 7)
	if o := all.outcome(t, b, success); o.Status != 7 {
		t.Errorf("outcome %+v", o)
	}
}

func TestUnfitWaiterAsksNobodyToStepDown(t *testing.T) {
	asked := make(chan context.Context, 10)
	var release func()
	b, all := checked(t, 0, func(b *bench, cfg *supervisor.Config) {
		waits(b, cfg)
		release = b.holdLock()
		cfg.Takeover = func(ctx context.Context, _ int, _ func(string)) error {
			asked <- ctx
			<-ctx.Done()
			return ctx.Err()
		}
	})
	defer release()
	all.end(t, success)
	ctx := <-asked
	all.end(t, failure, failure)
	<-ctx.Done()
	check, tried := all.next(t), b.backend.Calls(locktest.Acquire)
	eventually(t, "it has tried again", func() bool { return b.backend.Calls(locktest.Acquire) > tried+1 })
	if len(asked) > 0 {
		t.Error("it asks all the same")
	}
	check.end <- success
	ctx = <-asked // again
	b.signals <- unix.SIGTERM
	all.outcome(t, b, success)
	<-ctx.Done()
}

func TestUnfitWaiterWithTryOrTimeoutEnds(t *testing.T) {
	for name, change := range map[string]func(*supervisor.Config){
		"try":     func(cfg *supervisor.Config) { cfg.Try = true },
		"timeout": func(cfg *supervisor.Config) { cfg.Timeout = 50 * time.Millisecond },
	} {
		b, all := checked(t, 0, func(b *bench, cfg *supervisor.Config) {
			waits(b, cfg)
			change(cfg)
		})
		o := all.outcome(t, b, failure)
		if !errors.Is(o.Err, lock.ErrUnknown) {
			t.Errorf("%s: outcome %+v", name, o)
		}
		wantNotStarted(t, b.guard())
		b.wantFree(name)
	}
}

func TestCommandThatRunsForTooLongIsEnded(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.MaxRun, cfg.OnLoss = 20*time.Millisecond, supervisor.Retry
	})
	g := b.running()
	g.awaitTERM(t)
	g.dies(0, 0)
	if o := b.end(); o.Status != supervisor.ExitCut || !errors.Is(o.Err, supervisor.ErrOverran) {
		t.Errorf("outcome %+v", o)
	}
	b.wantFree("afterwards")
}

func TestCommandThatRunsForTooLongIsRestarted(t *testing.T) {
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		restarts(b, cfg)
		cfg.MaxRun = 20 * time.Millisecond
	})
	for range 2 {
		g := b.running()
		g.awaitTERM(t)
		g.dies(0, 0)
	}
	g := b.running()
	b.wantHeld("all the time")
	b.signals <- unix.SIGTERM
	g.dies(term, 0)
	b.end()
}

// In the slot that it has kept, the command itself is what shows that it can work here.
func TestCommandThatIsHealthyAgainMakesItsHostFit(t *testing.T) {
	said := &page{}
	b, all := checked(t, 0, func(b *bench, cfg *supervisor.Config) {
		waits(b, cfg)
		restarts(b, cfg)
		cfg.Log = hclog.New(&hclog.LoggerOptions{Output: said, Level: hclog.Info})
	})
	g := b.guard()
	all.end(t, success) // while it waits
	g.begin(t)
	all.ofCommand(t).end <- success
	all.end(t, failure, failure)
	g.awaitTERM(t)
	g.dies(0, 0)
	g = b.guard()
	g.begin(t)
	all.end(t, success, success, success)
	all.next(t).end <- success
	if n := said.count("health check succeeded"); n != 3 { // of each run the first
		t.Errorf("it says so %d times: %s", n, said.text.String())
	}
	b.signals <- unix.SIGTERM
	g.awaitTERM(t)
	g.dies(term, 0)
	all.outcome(t, b, success)
}
