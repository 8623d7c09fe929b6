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

var errNoMount = errors.New("cannot mount /proc")

// It is told while berth is busy with something else, which has to end too.
func TestGuardThatCannotWorkEndsBerthBeforeTheCommandRuns(t *testing.T) {
	for name, meanwhile := range map[string]func(*bench){
		"connecting": func(b *bench) {
			b.backend.InjectAlways(locktest.Connect, locktest.Fault{Before: lock.ErrUnreachable})
		},
		"waiting":   func(b *bench) { b.backend.InjectAlways(locktest.Acquire, locktest.Fault{Before: lock.ErrFull}) },
		"preparing": func(b *bench) { b.backend.InjectAlways(locktest.Ready, locktest.Fault{Before: lock.ErrUnknown}) },
		"starting":  func(*bench) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, time.Minute, func(b *bench, _ *supervisor.Config) { meanwhile(b) })
			g := b.guard()
			if name == "starting" {
				g.awaitStart(t)
			}
			g.say(wire.Event{Kind: wire.Unusable, Err: errNoMount})
			g.gone()
			if o := b.end(); o.Status != 126 || !errors.Is(o.Err, errNoMount) {
				t.Errorf("outcome %+v", o)
			}
			if err := b.another(); err != nil {
				t.Errorf("the lock is not free: %v", err)
			}
		})
	}
}

func TestGuardThatCannotWorkIsReplacedOnceOneCould(t *testing.T) {
	b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.OnFailure })
	g := b.guard()
	g.awaitStart(t)
	g.say(wire.Event{Kind: wire.Accepted})
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	g.dies(0, 1)
	g = b.guard()
	g.say(wire.Event{Kind: wire.Unusable, Err: errNoMount})
	g.gone()
	b.running().dies(unix.SIGKILL, 0)
	b.running().dies(0, 0)
	if o := b.end(); o.Status != 0 || o.Err != nil {
		t.Errorf("outcome %+v", o)
	}
}

func TestBerthWhoseFirstGuardCannotBeLaunchedEndsAtOnce(t *testing.T) {
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		b.backend.InjectAlways(locktest.Connect, locktest.Fault{Block: t.Context().Done()})
		cfg.Launch = func() (supervisor.Guard, error) { return nil, unix.EAGAIN }
	})
	if o := b.end(); o.Status != supervisor.ExitCannotExecute || !errors.Is(o.Err, unix.EAGAIN) {
		t.Errorf("outcome %+v", o)
	}
}
