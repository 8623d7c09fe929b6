package loop

import (
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

// hooked starts a supervisor with the hooks, whose guards are those of the bench.
func hooked(t *testing.T, lease time.Duration, change func(*supervisor.Config), hooks ...supervisor.Hook) *bench {
	t.Helper()
	return newBench(t, lease, func(b *bench, cfg *supervisor.Config) {
		cfg.HookTimeout = patience
		cfg.Hooks = map[supervisor.Hook]func() (supervisor.Guard, error){}
		for _, hook := range hooks {
			cfg.Hooks[hook] = b.launch
		}
		if change != nil {
			change(cfg)
		}
	})
}

// hook returns the guard of a hook that has been started, and checks what it was told.
func (b *bench) hook(vars ...string) *fakeGuard {
	b.t.Helper()
	g := b.guard()
	mustContain(b.t, g.awaitStart(b.t).Vars, append(vars, "BERTH_NAME=m", "BERTH_SLOT=1")...)
	g.say(wire.Event{Kind: wire.Started, Pid: 43})
	return g
}

// begin says of a guard that was launched before that it has started the command.
func (g *fakeGuard) begin(t *testing.T) supervisor.Start {
	t.Helper()
	start := g.awaitStart(t)
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	return start
}

func (b *bench) wantHeld(when string) {
	b.t.Helper()
	if err := b.another(); !errors.Is(err, lock.ErrFull) {
		b.t.Errorf("%s another gets: %v", when, err)
	}
}

func (b *bench) wantFree(when string) {
	b.t.Helper()
	if err := b.another(); err != nil {
		b.t.Errorf("%s another gets: %v", when, err)
	}
}

func wantNotStarted(t *testing.T, g *fakeGuard) {
	t.Helper()
	select {
	case <-g.started:
		t.Error("the command was started")
	default:
	}
}

func TestHooksRunBeforeAndAfterTheCommandInItsSlot(t *testing.T) {
	b := hooked(t, time.Minute, nil, supervisor.OnAcquire, supervisor.OnRelease, supervisor.OnLost)
	command := b.guard()
	acquire := b.hook("BERTH_REASON=acquired")
	eventually(t, "the hook's deadline is renewed", func() bool { return len(acquire.renewed()) > 1 })
	b.wantHeld("during on_acquire")
	wantNotStarted(t, command)
	acquire.dies(0, 0)

	if start := command.begin(t); start.Last {
		t.Error("the command's guard frees the slot before on_release")
	}
	command.dies(0, 7)

	release := b.hook("BERTH_REASON=ended")
	eventually(t, "the hook's deadline is renewed", func() bool { return len(release.renewed()) > 1 })
	b.wantHeld("during on_release")
	release.dies(0, 1) // how it ends changes nothing
	if o := b.end(); o.Status != 7 || o.Err != nil {
		t.Errorf("outcome %+v, want 7", o)
	}
	b.wantFree("afterwards")
}

func TestOnAcquireRefusesTheSlot(t *testing.T) {
	for name, refuse := range map[string]func(*fakeGuard){
		"by its status":             func(g *fakeGuard) { g.dies(0, 3) },
		"by a signal":               func(g *fakeGuard) { g.dies(kill, 0) },
		"because its guard is dead": func(g *fakeGuard) { g.gone() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := hooked(t, time.Minute, nil, supervisor.OnAcquire, supervisor.OnRelease, supervisor.OnLost)
			command := b.guard()
			refuse(b.hook("BERTH_REASON=acquired"))
			eventually(t, "the slot is given back", func() bool { return b.backend.Calls(locktest.Release) == 1 })
			b.hook("BERTH_REASON=acquired").dies(0, 0) // once more, after a pause
			command.begin(t)
			command.dies(0, 0)
			b.hook("BERTH_REASON=ended").dies(0, 0)
			b.end()
		})
	}
}

func TestRefusalWithTryOrTimeoutEndsBerth(t *testing.T) {
	for name, change := range map[string]func(*supervisor.Config){
		"try":     func(cfg *supervisor.Config) { cfg.Try = true },
		"timeout": func(cfg *supervisor.Config) { cfg.Timeout = 2 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := hooked(t, time.Minute, change, supervisor.OnAcquire, supervisor.OnRelease)
			command := b.guard()
			for over := false; !over; {
				select {
				case g := <-b.guards:
					g.awaitStart(t)
					g.say(wire.Event{Kind: wire.Started, Pid: 43})
					g.dies(0, 3)
				case o := <-b.outcome:
					if over = true; !errors.Is(o.Err, supervisor.ErrRefused) {
						t.Errorf("outcome %+v", o)
					}
				case <-time.After(patience):
					t.Fatal("the supervisor did not end")
				}
			}
			wantNotStarted(t, command)
			b.wantFree("afterwards")
		})
	}
}

func TestHookThatCannotBeStartedIsARefusal(t *testing.T) {
	for name, start := range map[string]func(*bench, *supervisor.Config){
		"no guard": func(_ *bench, cfg *supervisor.Config) {
			cfg.Hooks = map[supervisor.Hook]func() (supervisor.Guard, error){
				supervisor.OnAcquire: func() (supervisor.Guard, error) { return nil, unix.EAGAIN },
			}
		},
		"no program": func(b *bench, cfg *supervisor.Config) {
			cfg.Hooks = map[supervisor.Hook]func() (supervisor.Guard, error){
				supervisor.OnAcquire: func() (supervisor.Guard, error) {
					g, err := b.launch()
					fake := g.(*fakeGuard)
					fake.say(wire.Event{Kind: wire.NotStarted, Errno: unix.ENOENT})
					fake.say(wire.Event{Kind: wire.Dead})
					return g, err
				},
			}
		},
	} {
		b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
			cfg.Try, cfg.HookTimeout = true, patience
			start(b, cfg)
		})
		if o := b.end(); !errors.Is(o.Err, supervisor.ErrRefused) || errors.Is(o.Err, supervisor.ErrNotExecuted) {
			t.Errorf("%s: outcome %+v", name, o)
		}
		b.wantFree(name + ": afterwards")
	}
}

func TestHookThatHangsIsKilled(t *testing.T) {
	b := hooked(t, time.Minute, func(cfg *supervisor.Config) {
		cfg.HookTimeout, cfg.Try = 50*time.Millisecond, true
	}, supervisor.OnAcquire)
	b.guard()
	g := b.hook()
	g.awaitOrder(t, "kill")
	b.wantHeld("before it is dead")
	g.dies(kill, 0)
	if o := b.end(); !errors.Is(o.Err, supervisor.ErrRefused) {
		t.Errorf("outcome %+v", o)
	}
}

func TestWhatAHookLeavesRunningIsKilledBeforeTheStart(t *testing.T) {
	b := hooked(t, time.Minute, nil, supervisor.OnAcquire)
	command := b.guard()
	g := b.hook()
	g.say(wire.Event{Kind: wire.Exited, Left: true})
	g.awaitOrder(t, "kill")
	wantNotStarted(t, command)
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	command.begin(t)
	command.dies(0, 5)
	if o := b.end(); o.Status != 5 {
		t.Errorf("outcome %+v, want 5", o)
	}
}

func TestSignalDuringOnAcquireEndsIt(t *testing.T) {
	b := hooked(t, time.Minute, nil, supervisor.OnAcquire, supervisor.OnRelease)
	command := b.guard()
	g := b.hook()
	b.signals <- unix.SIGUSR1 // is the command's
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.awaitOrder(t, "kill")
	g.dies(kill, 0)
	if o := b.end(); o.Status != 143 || o.Err != nil {
		t.Errorf("outcome %+v, want 143", o)
	}
	wantNotStarted(t, command)
	b.wantFree("afterwards")
}

func TestSignalThatComesTooLateForOnAcquireHasOnReleaseRun(t *testing.T) {
	b := hooked(t, time.Minute, nil, supervisor.OnAcquire, supervisor.OnRelease)
	command := b.guard()
	g := b.hook()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.dies(0, 0)
	b.hook("BERTH_REASON=signal").dies(0, 0)
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
	wantNotStarted(t, command)
}

func TestSignalLetsOnReleaseFinish(t *testing.T) {
	b := hooked(t, time.Minute, nil, supervisor.OnRelease)
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	release := b.hook("BERTH_REASON=signal")
	b.signals <- unix.SIGTERM
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	release.dies(0, 0)
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
	if len(release.orders) != 0 {
		t.Errorf("on_release was told %q", <-release.orders)
	}
}

func TestSignalBetweenTwoRunsHasOnReleaseRun(t *testing.T) {
	b := hooked(t, time.Minute, func(cfg *supervisor.Config) { cfg.Restart = supervisor.Always }, supervisor.OnRelease)
	b.running().dies(0, 0)
	next := b.guard() // waits for the next start
	b.signals <- unix.SIGTERM
	select {
	case <-next.started: // it came too late
		next.say(wire.Event{Kind: wire.Started, Pid: 42})
		next.dies(term, 0)
	case release := <-b.guards:
		mustContain(t, release.awaitStart(t).Vars, "BERTH_REASON=signal")
		release.dies(0, 0)
		if o := b.end(); o.Status != 143 {
			t.Errorf("outcome %+v, want 143", o)
		}
		return
	}
	b.hook("BERTH_REASON=signal").dies(0, 0)
	b.end()
}

func TestLossDuringOnAcquireEndsIt(t *testing.T) {
	b := hooked(t, time.Minute, func(cfg *supervisor.Config) { cfg.Try = true },
		supervisor.OnAcquire, supervisor.OnRelease, supervisor.OnLost)
	command := b.guard()
	g := b.hook()
	b.backend.ReportLost(mutex, lock.ErrLost)
	g.awaitOrder(t, "TERM tree")
	g.awaitOrder(t, "kill")
	g.dies(kill, 0)
	if o := b.end(); o.Err == nil {
		t.Errorf("outcome %+v", o)
	}
	wantNotStarted(t, command)
	if len(b.guards) != 0 {
		t.Error("another hook was launched")
	}
}

// Nothing has run, so that status 0 would be a lie.
func TestStepDownDuringOnAcquireIsNoSuccess(t *testing.T) {
	for name, change := range map[string]func(*supervisor.Config){
		"try":     func(cfg *supervisor.Config) { cfg.Try = true },
		"timeout": func(cfg *supervisor.Config) { cfg.Timeout = 50 * time.Millisecond },
	} {
		b := hooked(t, time.Minute, change, supervisor.OnAcquire)
		command := b.guard()
		g := b.hook()
		if d := b.stepDown(); !d.Accepted {
			t.Errorf("%s: %+v", name, d)
		}
		g.awaitOrder(t, "TERM head")
		g.dies(term, 0)
		if o := b.end(); !errors.Is(o.Err, lock.ErrUnknown) || !strings.Contains(o.Err.Error(), "asked to step down") {
			t.Errorf("%s: outcome %+v", name, o)
		}
		wantNotStarted(t, command)
		b.wantFree(name + ": afterwards")
	}
}

func TestHookIsEndedBeforeTheDeadlineOfASlotInDoubt(t *testing.T) {
	t.Parallel()
	b := hooked(t, short, nil, supervisor.OnRelease)
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
	b.running().dies(0, 0)
	release := b.hook()
	release.awaitOrder(t, "TERM tree")
	release.awaitOrder(t, "kill")
	release.dies(kill, 0)
	if o := b.end(); o.Status != 0 || o.Err != nil {
		t.Errorf("outcome %+v: the command had ended before", o)
	}
}

func TestOnLostRunsWhenTheSlotIsGivenUp(t *testing.T) {
	said := &page{}
	b := hooked(t, time.Minute, func(cfg *supervisor.Config) { cfg.Log = said.logger() },
		supervisor.OnRelease, supervisor.OnLost)
	g := b.running()
	b.backend.ReportLost(mutex, lock.ErrLost)
	g.awaitOrder(t, "TERM tree")
	g.dies(term, 0)
	lost := b.hook("BERTH_REASON=lost")
	b.wantFree("during on_lost")
	b.signals <- unix.SIGTERM
	lost.dies(0, 1)
	if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
		t.Errorf("outcome %+v", o)
	}
	if said.count("hook failed: slot=1 term=1 hook=on_lost") != 1 {
		t.Errorf("it does not say of which slot: %q", said.text.String())
	}
}

func TestBerthQueuesUpAgainAfterOnLost(t *testing.T) {
	b := hooked(t, time.Minute, func(cfg *supervisor.Config) { cfg.OnLoss = supervisor.Retry }, supervisor.OnLost)
	g := b.running()
	b.backend.ReportLost(mutex, lock.ErrLost)
	g.awaitOrder(t, "TERM tree")
	g.dies(term, 0)
	b.hook("BERTH_REASON=lost").dies(0, 0)
	b.running().dies(0, 4)
	if o := b.end(); o.Status != 4 {
		t.Errorf("outcome %+v, want 4", o)
	}
}

func TestOnAcquireRunsOncePerSlot(t *testing.T) {
	b := hooked(t, time.Minute, func(cfg *supervisor.Config) { cfg.Restart = supervisor.OnFailure },
		supervisor.OnAcquire)
	command := b.guard()
	b.hook().dies(0, 0)
	command.begin(t)
	command.dies(0, 3)
	b.running().dies(0, 0)
	if o := b.end(); o.Status != 0 {
		t.Errorf("outcome %+v, want 0", o)
	}
	if len(b.guards) != 0 {
		t.Error("another hook was launched")
	}
}

func TestReloadedHookRunsAtTheNextTurn(t *testing.T) {
	for name, before := range map[string][]supervisor.Hook{
		"in the slot that is held":                          {supervisor.OnRelease},
		"not where the guard of the command frees the slot": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, time.Minute, func(b *bench, cfg *supervisor.Config) {
				cfg.Hooks, cfg.HookTimeout = map[supervisor.Hook]func() (supervisor.Guard, error){}, patience
				for _, hook := range before {
					cfg.Hooks[hook] = func() (supervisor.Guard, error) { return nil, unix.ENOENT }
				}
				cfg.Reload = func() (supervisor.Reloaded, error) {
					hooks := map[supervisor.Hook]func() (supervisor.Guard, error){supervisor.OnRelease: b.launch}
					return supervisor.Reloaded{Stop: cfg.Stop, Loss: cfg.Loss, Hooks: hooks, HookTimeout: patience}, nil
				}
			})
			g := b.running()
			var decision lock.Decision
			if b.ask(lock.AskReload, &decision); !decision.Accepted {
				t.Fatalf("%+v", decision)
			}
			g.dies(0, 6)
			if before != nil {
				b.hook("BERTH_REASON=ended").dies(0, 0)
			}
			if o := b.end(); o.Status != 6 {
				t.Errorf("outcome %+v, want 6", o)
			}
			if len(b.guards) != 0 {
				t.Error("another hook was launched")
			}
		})
	}
}

func TestHolderThatIsAskedToStepDownRunsOnRelease(t *testing.T) {
	b := hooked(t, time.Minute, func(cfg *supervisor.Config) { cfg.Try = true }, supervisor.OnRelease)
	g := b.running()
	if d := b.stepDown(); !d.Accepted {
		t.Errorf("%+v", d)
	}
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	release := b.hook("BERTH_REASON=step-down")
	if d := b.stepDown(); !d.Accepted || d.Why == "" {
		t.Errorf("during on_release: %+v", d)
	}
	release.dies(0, 0)
	b.end()
}
