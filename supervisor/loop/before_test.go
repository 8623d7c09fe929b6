package loop

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/lock/locktest"
	"berth/supervisor"
)

// What fails before the command has run in a slot is no loss of it.
func TestSlotThatFailsBeforeTheFirstStartIsQueuedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		op  locktest.Op
		err error
	}{
		"connection reset in the handover wait": {locktest.Ready, lock.ErrUnreachable},
		"verification without an answer":        {locktest.Verify, lock.ErrUnknown},
		"lost":                                  {locktest.Ready, lock.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, time.Minute, func(b *bench, cfg *supervisor.Config) {
				b.backend.Inject(c.op, locktest.Fault{Before: c.err})
				cfg.VerifyTimeout = time.Minute // the proof that came with the slot leaves no time for the next one
			})
			b.running().dies(0, 4)
			if o := b.end(); o.Status != 4 || o.Err != nil {
				t.Errorf("outcome %+v, want 4", o)
			}
			if n := b.backend.Calls(locktest.Acquire); n < 2 {
				t.Errorf("%d attempts: this test tests nothing", n)
			}
		})
	}
}

func TestDoubtBetweenTwoRunsDoesNotGiveTheSlotUp(t *testing.T) {
	unknown := locktest.Fault{Before: lock.ErrUnknown}
	for name, doubt := range map[string]func(*bench){
		"told by the backend":         func(b *bench) { b.backend.ReportLost(mutex, lock.ErrInDoubt) },
		"not verified for the start":  func(b *bench) { b.backend.Inject(locktest.Verify, unknown, unknown) },
		"not ready for another start": func(b *bench) { b.backend.Inject(locktest.Ready, unknown, unknown) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.OnFailure })
			b.running().dies(0, 1)
			g := b.guard() // the next run's
			doubt(b)
			g.awaitStart(t)
			g.say(wire.Event{Kind: wire.Started, Pid: 43})
			attempts, releases := b.backend.Calls(locktest.Acquire), b.backend.Calls(locktest.Release)
			if attempts != 1 || releases != 0 {
				t.Errorf("%d attempts and %d releases, want the slot to be kept", attempts, releases)
			}
			g.dies(0, 0)
			if o := b.end(); o.Status != 0 || o.Err != nil {
				t.Errorf("outcome %+v, want 0", o)
			}
		})
	}
}

func TestReclaimBetweenTwoRunsGetsTheTimeThereIs(t *testing.T) {
	b := newBench(t, time.Minute, func(_ *bench, cfg *supervisor.Config) {
		cfg.Restart, cfg.VerifyInterval = supervisor.Always, time.Minute
	})
	g := b.running()
	reclaimed := make(chan struct{})
	b.backend.InjectAlways(locktest.Reclaim, locktest.Fault{Block: reclaimed})
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Block: reclaimed})
	g.dies(0, 1)
	g = b.guard()
	b.backend.ReportLost(mutex, lock.ErrInDoubt)
	time.AfterFunc(400*time.Millisecond, func() { close(reclaimed) }) // eight times --verify-timeout
	g.awaitStart(t)
	b.signals <- unix.SIGTERM
	g.say(wire.Event{Kind: wire.Started, Pid: 43})
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	b.end()
}

// What keeps a command from being started again may pass: a host without room
// for a process, a program that is just being replaced.
func TestCommandThatHasRunIsStartedAgainOnceItCanBe(t *testing.T) {
	t.Parallel()
	said := &page{}
	var failing atomic.Int32
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		cfg.Restart, cfg.Log = supervisor.Always, said.logger()
		cfg.Launch = func() (supervisor.Guard, error) {
			if failing.Add(-1) >= 0 {
				return nil, unix.EAGAIN
			}
			return b.launch()
		}
	})
	g := b.running()
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.ENOENT} {
		failing.Store(3) // the guard of the next run, once more before the start, and after that
		g.dies(0, 0)
		g = b.guard()
		g.awaitStart(t)
		g.say(wire.Event{Kind: wire.NotStarted, Errno: errno})
		g.say(wire.Event{Kind: wire.Dead})
		g.gone()
		g = b.running()
	}
	if n := said.count("cannot start the command again yet"); n != 2 {
		t.Errorf("it says that %d times, not twice", n)
	}
	if attempts := b.backend.Calls(locktest.Acquire); attempts != 1 {
		t.Errorf("%d attempts, want the slot to be kept", attempts)
	}
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.dies(term, 0)
	if o := b.end(); o.Status != 143 || o.Err != nil {
		t.Errorf("outcome %+v, want 143", o)
	}
}

func TestTermEndsBerthThoughTheCommandCannotBeStartedAgain(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.Always })
	b.running().dies(0, 0)
	g := b.guard()
	g.awaitStart(t)
	b.signals <- unix.SIGTERM
	eventually(t, "the signal is taken", func() bool { return len(b.signals) == 0 })
	g.say(wire.Event{Kind: wire.NotStarted, Errno: unix.EAGAIN})
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	if o := b.end(); !errors.Is(o.Err, unix.EAGAIN) {
		t.Errorf("outcome %+v, want that it could not be started", o)
	}
}

func TestDoubtBetweenTwoRunsThatLastsIsALoss(t *testing.T) {
	t.Parallel()
	b := newBench(t, short, func(_ *bench, cfg *supervisor.Config) { cfg.Restart = supervisor.Always })
	g := b.running()
	b.backend.InjectAlways(locktest.Ready, locktest.Fault{Before: lock.ErrUnknown})
	g.say(wire.Event{Kind: wire.Exited, Status: 1 << 8})
	b.backend.InjectAlways(locktest.Verify, locktest.Fault{Before: lock.ErrUnknown})
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	if o := b.end(); !errors.Is(o.Err, lock.ErrLost) {
		t.Errorf("outcome %+v, want a loss", o)
	}
}

func TestRefusalBeforeTheFirstStartEndsBerth(t *testing.T) {
	for _, try := range []bool{false, true} {
		said := &page{}
		b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
			cfg.Try, cfg.Log = try, said.logger()
			b.backend.InjectAlways(locktest.Ready, locktest.Fault{Before: lock.ErrDenied})
		})
		if o := b.end(); !errors.Is(o.Err, lock.ErrDenied) {
			t.Errorf("--try %v: outcome %+v, want a refusal", try, o)
		}
		if err := b.another(); err != nil {
			t.Errorf("--try %v: afterwards another gets: %v", try, err)
		}
		if said.count("") != 0 {
			t.Errorf("--try %v: it says %q, and its error as well", try, said.text.String())
		}
	}
}

func TestReasonWhyNothingIsStartedIsToldOnce(t *testing.T) {
	said := &page{}
	b := newBench(t, 0, func(b *bench, cfg *supervisor.Config) {
		cfg.Log = said.logger()
		b.backend.InjectAlways(locktest.Ready, locktest.Fault{Before: lock.ErrUnknown})
	})
	eventually(t, "several attempts", func() bool { return b.backend.Calls(locktest.Ready) > 3 })
	b.signals <- unix.SIGTERM
	b.end()
	if said.count("slot given back before the start") != 1 || said.count("slot lost") != 0 {
		t.Errorf("it said:\n%s", said.text.String())
	}
}

// page is what a supervisor has said at warn level and above.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(line)
}

func (p *page) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: p, Level: hclog.Warn})
}

// count returns how many lines have the words.
func (p *page) count(words string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.text.String()) {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}
