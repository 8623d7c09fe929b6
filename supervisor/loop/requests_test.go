package loop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
	"berth/supervisor/answers"
)

// ask asks the supervisor, and reads the answer.
func (b *bench) ask(verb lock.Verb, answer any) {
	b.t.Helper()
	got := make(chan []byte, 1)
	b.backend.Ask(lock.Request{Verb: verb, From: "somebody", Reply: func(_ context.Context, text []byte) error {
		got <- text
		return nil
	}})
	select {
	case text := <-got:
		if err := json.Unmarshal(text, answer); err != nil {
			b.t.Fatalf("%s: %v", text, err)
		}
	case <-time.After(patience):
		b.t.Fatalf("no answer to %q", verb)
	}
}

func (b *bench) report() (r lock.Report) {
	b.t.Helper()
	b.ask(lock.AskStatus, &r)
	return r
}

func (b *bench) stepDown() (d lock.Decision) {
	b.t.Helper()
	b.ask(lock.AskStepDown, &d)
	return d
}

func TestReportSaysWhatTheSupervisorDoes(t *testing.T) {
	began := time.Now()
	var release func()
	b := newBench(t, time.Minute, func(b *bench, cfg *supervisor.Config) {
		release = b.holdLock()
		cfg.Self = lock.Report{Host: "h", PID: 7, Command: "importer"}
	})
	eventually(t, "it waits", func() bool { return b.report().State == string(supervisor.Waiting) })
	r := b.report()
	if r.Slot != 0 || r.Trouble == "" || r.Host != "h" || r.PID != 7 || r.Command != "importer" || r.Since.Before(began) {
		t.Errorf("while it waits: %+v", r)
	}
	won := time.Now()
	release()
	g := b.running()
	eventually(t, "it runs", func() bool { return b.report().State == string(supervisor.Running) })
	r = b.report()
	if r.Slot != 1 || r.Trouble != "" || r.Since.Before(won) || time.Since(r.Verified) > patience ||
		r.Verified.Before(won) {
		t.Errorf("while it runs: %+v", r)
	}
	g.dies(0, 0)
	b.end()
}

func TestHolderThatStepsDownEndsItsCommandAndQueuesUp(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.running()
	if d := b.stepDown(); !d.Accepted || d.Why != "" {
		t.Errorf("asked to step down: %+v", d)
	}
	g.awaitOrder(t, "TERM head")
	if err := b.another(); !errors.Is(err, lock.ErrFull) {
		t.Errorf("before the tree is dead another gets: %v", err)
	}
	if d := b.stepDown(); !d.Accepted || d.Why == "" {
		t.Errorf("asked again: %+v", d)
	}
	g.dies(term, 0)
	g = b.running() // nobody else wanted the slot
	g.dies(0, 3)
	if o := b.end(); o.Status != 3 || o.Err != nil {
		t.Errorf("outcome %+v", o)
	}
}

// A command that ends by itself while it is asked to is not finished.
func TestCommandThatEndsInOrderWhenAskedRunsAgain(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.running()
	b.stepDown()
	g.awaitOrder(t, "TERM head")
	g.dies(0, 0)
	b.running().dies(0, 5)
	if o := b.end(); o.Status != 5 {
		t.Errorf("outcome %+v", o)
	}
}

func TestStepDownWithTryEndsBerth(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Try = true })
	g := b.running()
	b.stepDown()
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	if o := b.end(); o.Status != 128+int(term) || o.Err != nil {
		t.Errorf("outcome %+v", o)
	}
}

func TestWaiterHasNothingToStepDownFrom(t *testing.T) {
	var release func()
	b := newBench(t, 0, func(b *bench, _ *supervisor.Config) { release = b.holdLock() })
	if d := b.stepDown(); d.Accepted || d.Why == "" {
		t.Errorf("a waiter: %+v", d)
	}
	release()
	b.running().dies(0, 0)
	b.end()
}

// Who asks and does not read the answer keeps nobody waiting.
func TestAnswersThatAreNotTakenAreDropped(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.running()
	for range 10 * answers.Most {
		b.backend.Ask(lock.Request{Verb: lock.AskStatus, Reply: func(ctx context.Context, _ []byte) error {
			<-ctx.Done()
			return ctx.Err()
		}})
	}
	b.backend.Ask(lock.Request{Verb: "nonsense"})
	g.dies(0, 0)
	b.end()
}

func TestReloadChangesTheSequencesFromNowOn(t *testing.T) {
	var wrong error
	b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) {
		cfg.Reload = func() (supervisor.Reloaded, error) {
			return supervisor.Reloaded{Stop: steps(t, "USR1 50ms, KILL"), StopTo: supervisor.StopTree, Loss: cfg.Loss,
				Kept: []string{"broker"}}, wrong
		}
	})
	g := b.running()
	var d lock.Decision
	if b.ask(lock.AskReload, &d); !d.Accepted || !strings.Contains(d.Why, "broker") {
		t.Errorf("asked to reload: %+v", d)
	}
	wrong = errors.New("no such key")
	if b.ask(lock.AskReload, &d); d.Accepted || d.Why != "no such key" {
		t.Errorf("with a configuration that is wrong: %+v", d)
	}
	b.stepDown()
	g.awaitOrder(t, "USR1 tree")
	g.dies(0, 0)
	b.running().dies(0, 0)
	b.end()
}

// A password in a will may be another after a reload.
func TestReloadHasTheGuardKeepTheWillAsItIsNow(t *testing.T) {
	b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) {
		cfg.Lock = willing{cfg.Lock}
		cfg.Reload = func() (supervisor.Reloaded, error) {
			return supervisor.Reloaded{Stop: cfg.Stop, Loss: cfg.Loss, Took: []string{"broker"}}, nil
		}
	})
	g := b.running()
	var d lock.Decision
	if b.ask(lock.AskReload, &d); !d.Accepted || d.Why != "these have changed: broker" {
		t.Errorf("asked to reload: %+v", d)
	}
	g.awaitOrder(t, `will "w"`)
	g.dies(0, 0)
	b.end()
}

// Whatever becomes of the slot, this process can be asked.
func TestProcessIsAskedInEveryState(t *testing.T) {
	for state, reach := range map[supervisor.State]func(*bench){
		supervisor.Connecting: func(b *bench) {
			b.backend.InjectAlways(locktest.Connect, locktest.Fault{Block: t.Context().Done()})
		},
		supervisor.Pausing: func(b *bench) {
			b.backend.InjectAlways(locktest.Connect, locktest.Fault{Before: lock.ErrUnreachable})
		},
		supervisor.Attempting: func(b *bench) {
			b.backend.InjectAlways(locktest.Acquire, locktest.Fault{Block: t.Context().Done()})
		},
		supervisor.Waiting: func(b *bench) { b.holdLock() },
		supervisor.InDoubt: func(b *bench) {
			b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
		},
	} {
		t.Run(string(state), func(t *testing.T) {
			asked := make(chan lock.Request)
			ask := func(verb lock.Verb, answer any) {
				got := make(chan []byte, 1)
				reply := func(_ context.Context, text []byte) error { got <- text; return nil }
				asked <- lock.Request{Verb: verb, Reply: reply}
				if err := json.Unmarshal(<-got, answer); err != nil {
					t.Fatal(err)
				}
			}
			b := newBench(t, time.Minute, func(b *bench, cfg *supervisor.Config) {
				cfg.Asked = asked
				cfg.Reload = func() (supervisor.Reloaded, error) {
					return supervisor.Reloaded{Stop: cfg.Stop, Loss: cfg.Loss}, nil
				}
				reach(b)
			})
			finish := func() { b.signals <- term }
			if state == supervisor.InDoubt {
				g := b.running()
				finish = func() { g.dies(0, 0) }
			}
			eventually(t, "its state", func() bool {
				var r lock.Report
				ask(lock.AskStatus, &r)
				return r.State == string(state)
			})
			var d lock.Decision
			if ask(lock.AskReload, &d); !d.Accepted || d.Why != "" {
				t.Errorf("asked to reload: %+v", d)
			}
			finish()
			b.end()
		})
	}
}

func TestNothingToReloadIsSaid(t *testing.T) {
	b := newBench(t, 0, nil)
	g := b.running()
	var d lock.Decision
	if b.ask(lock.AskReload, &d); d.Accepted || d.Why == "" {
		t.Errorf("asked to reload: %+v", d)
	}
	g.dies(0, 0)
	b.end()
}

// What a command has left is being ended, and it would start again.
func TestStepDownWhileLeftoversEndIsNotForgotten(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.Always })
	g := b.running()
	g.say(wire.Event{Kind: wire.Exited, Left: true})
	g.awaitOrder(t, "TERM tree")
	if d := b.stepDown(); !d.Accepted {
		t.Errorf("asked to step down: %+v", d)
	}
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	eventually(t, "the slot is given back", func() bool { return b.another() == nil })
	b.signals <- term
	b.end()
}
