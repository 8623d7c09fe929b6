package loop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
	"berth/lock"
	"berth/lock/locktest"
	"berth/signals"
	"berth/supervisor"
	"berth/supervisor/machine"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// strict fails a test for an event that the table of states does not have.
var strict = env{
	callPatience: normal.callPatience,
	unlisted: func(_ hclog.Logger, state supervisor.State, on machine.Event) {
		panic(fmt.Sprintf("%q comes in state %q, for which the table does not have it", on, state))
	},
}

var mutex = lock.ID{Kind: lock.Mutex, Name: "m"}

// patience is for what has to happen; a failing test waits for it.
const patience = 20 * time.Second

// bench is a supervisor on a fake backend with fake guards.
type bench struct {
	t       *testing.T
	place   *locktest.Place
	backend *locktest.Fake
	signals chan os.Signal
	guards  chan *fakeGuard // as they are launched
	outcome chan supervisor.Exit
	env     env
}

// newBench starts a supervisor; change, if not nil, alters what it is given.
func newBench(t *testing.T, lease time.Duration, change func(*bench, *supervisor.Config)) *bench {
	t.Helper()
	place := locktest.NewPlace()
	b := &bench{
		t: t, place: place, backend: place.Open(lease),
		signals: make(chan os.Signal, 10),
		guards:  make(chan *fakeGuard, 100),
		outcome: make(chan supervisor.Exit, 1),
		env:     strict,
	}
	cfg := supervisor.Config{
		ID:             mutex,
		Launch:         b.launch,
		Signals:        b.signals,
		Stop:           steps(t, "TERM 50ms, KILL"),
		Loss:           steps(t, "TERM 20ms, KILL"),
		VerifyInterval: 20 * time.Millisecond,
		VerifyTimeout:  50 * time.Millisecond,
		Margin:         10 * time.Millisecond,
		OnLoss:         supervisor.NoRetry,
		Restart:        supervisor.Never,
		Holder:         "here:1",
		Log:            hclog.NewNullLogger(),
	}
	cfg.Lock = b.backend.Lock(cfg.ID)
	if change != nil {
		change(b, &cfg)
	}
	go func() { b.outcome <- run(cfg, b.env) }()
	return b
}

func steps(t *testing.T, text string) signals.Sequence {
	t.Helper()
	seq, err := signals.ParseSequence(text)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func (b *bench) launch() (supervisor.Guard, error) {
	g := &fakeGuard{
		events: make(chan wire.Event, 50), orders: make(chan string, 1000),
		started: make(chan supervisor.Start, 1),
	}
	b.guards <- g
	return g, nil
}

func (b *bench) guard() *fakeGuard {
	b.t.Helper()
	select {
	case g := <-b.guards:
		return g
	case <-time.After(patience):
		b.t.Fatal("no guard was launched")
		return nil
	}
}

func (b *bench) end() supervisor.Exit {
	b.t.Helper()
	select {
	case o := <-b.outcome:
		return o
	case <-time.After(patience):
		b.t.Fatal("the supervisor did not end")
		return supervisor.Exit{}
	}
}

// running returns the guard of a command that has been started.
func (b *bench) running() *fakeGuard {
	b.t.Helper()
	g := b.guard()
	g.awaitStart(b.t)
	g.say(wire.Event{Kind: wire.Started, Pid: 42})
	return g
}

// another returns whether another contender obtains the lock now.
func (b *bench) another() error {
	b.t.Helper()
	l := b.place.Open(0).Lock(mutex)
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Connect(ctx); err != nil {
		b.t.Fatal(err)
	}
	_, err := l.Acquire(ctx)
	return err
}

// holdLock has somebody else hold the lock until the returned function is called.
func (b *bench) holdLock() (release func()) {
	b.t.Helper()
	l := b.place.Open(0).Lock(mutex)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Connect(ctx); err != nil {
		b.t.Fatal(err)
	}
	if _, err := l.Acquire(ctx); err != nil {
		b.t.Fatal(err)
	}
	return sync.OnceFunc(func() { l.Close() })
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// fakeGuard does nothing by itself: a test reads its orders and says what
// happens.
type fakeGuard struct {
	events  chan wire.Event
	orders  chan string
	started chan supervisor.Start

	will      string // of before the start
	once      sync.Once
	mu        sync.Mutex
	deadlines []boottime.Instant // as they were renewed
}

func (g *fakeGuard) SetWill(will []byte) error {
	if g.will != string(will) {
		g.will = string(will)
		g.orders <- fmt.Sprintf("will %q", will)
	}
	return nil
}

func (g *fakeGuard) Start(s supervisor.Start) error {
	g.started <- s
	return nil
}

func (g *fakeGuard) Renew(d boottime.Instant) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadlines = append(g.deadlines, d)
	return nil
}

func (g *fakeGuard) Signal(sig syscall.Signal, to wire.Scope) error {
	g.orders <- fmt.Sprintf("%s %s", signals.Name(sig), to)
	return nil
}

func (g *fakeGuard) Freeze() error {
	g.orders <- "freeze"
	return nil
}

func (g *fakeGuard) Thaw() error {
	g.orders <- "thaw"
	return nil
}

func (g *fakeGuard) Kill() error {
	g.orders <- "kill"
	return nil
}

func (g *fakeGuard) Abandon() { g.orders <- "abandon" }

func (g *fakeGuard) Retire() {
	g.orders <- "retire"
	g.gone()
}

func (g *fakeGuard) Events() <-chan wire.Event { return g.events }

func (g *fakeGuard) say(e wire.Event) { g.events <- e }

func (g *fakeGuard) gone() { g.once.Do(func() { close(g.events) }) }

// dies says that the whole tree is dead, the first process by the signal or, if
// that is 0, with the status.
func (g *fakeGuard) dies(sig syscall.Signal, code int) {
	status := syscall.WaitStatus(code<<8 | int(sig))
	g.say(wire.Event{Kind: wire.Exited, Status: status})
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
}

// killed says that the guard was killed, and that its tree is dead.
func (g *fakeGuard) killed() {
	g.say(wire.Event{Kind: wire.Exited, Status: 9, Orphans: true})
	g.say(wire.Event{Kind: wire.Dead, Orphans: true})
	g.gone()
}

func (g *fakeGuard) awaitStart(t *testing.T) supervisor.Start {
	t.Helper()
	select {
	case s := <-g.started:
		return s
	case <-time.After(patience):
		t.Fatal("the command was not started")
		return supervisor.Start{}
	}
}

// awaitOrder waits for one order, and fails if another comes first.
func (g *fakeGuard) awaitOrder(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-g.orders:
		if got != want {
			t.Fatalf("the guard was told %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("the guard was not told %q", want)
	}
}

func (g *fakeGuard) renewed() []boottime.Instant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.deadlines)
}

func mustContain(t *testing.T, vars []string, wants ...string) {
	t.Helper()
	all := "\n" + strings.Join(vars, "\n") + "\n"
	for _, want := range wants {
		if !strings.Contains(all, "\n"+want+"\n") {
			t.Errorf("%q is missing in %q", want, vars)
		}
	}
}

const term, kill = unix.SIGTERM, unix.SIGKILL
