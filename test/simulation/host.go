package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit"
	"berth/signals"
	"berth/supervisor"
	"berth/supervisor/loop"
)

// host is where berths of one contender run, one after another. world.mu guards it.
type host struct {
	w       *world
	number  int
	name    string
	clock   *clock
	routes  []*route
	cfg     Contender
	runs    int
	berth   *berth // the one that runs; nil: none
	guards  []*guard
	started int           // commands
	frozen  int           // by how many faults all of it is stopped
	told    time.Duration // when its berth was told to end
	done    chan struct{}
}

// berth is one process of berth.
type berth struct {
	*task
	signals chan os.Signal
	over    chan struct{} // closed when Run has returned
	state   supervisor.State
	outcome supervisor.Exit
	term    uint64 // of the last command that it has started
}

func newHost(w *world, number int, cfg Contender) *host {
	h := &host{w: w, number: number, name: fmt.Sprintf("host%02d", number), cfg: cfg, done: make(chan struct{})}
	h.clock = &clock{w: w, timers: map[*timer]bool{}}
	for range w.plan.Nodes {
		h.routes = append(h.routes, &route{})
	}
	return h
}

// live runs berths until the world ends, as a service manager does that starts them again.
func (h *host) live() {
	defer close(h.done)
	time.Sleep(h.cfg.Begin)
	for {
		b := h.begin()
		if b == nil {
			return
		}
		select {
		case <-b.over:
		case <-b.gone:
		}
		h.w.mu.Lock()
		if h.berth == b && !b.killed {
			h.w.note(b.name, "ends with status %d, %v", b.outcome.Status, b.outcome.Err)
			b.end()
			if errors.Is(b.outcome.Err, lock.ErrUnsafe) { // nothing is to be had here
				h.berth, h.started = nil, h.started+1
				h.w.mu.Unlock()
				return
			}
		}
		pause := time.Duration(h.w.random.Int64N(int64(3*time.Second))) + 100*time.Millisecond
		h.berth = nil
		h.w.mu.Unlock()
		time.Sleep(pause)
	}
}

// begin starts a berth, unless the world ends.
func (h *host) begin() *berth {
	w := h.w
	w.mu.Lock()
	if w.final && (h.started > 0 || h.runs > 0 && w.now() > w.quiet+30*time.Minute) {
		w.mu.Unlock()
		return nil
	}
	h.runs++
	b := &berth{
		task: newTask(h, fmt.Sprintf("%s.%d", h.name, h.runs)), signals: make(chan os.Signal, 10),
		over: make(chan struct{}),
	}
	h.berth = b
	if h.frozen > 0 {
		b.stop(0)
	}
	w.note(b.name, "berth starts")
	w.mu.Unlock()
	w.ghosts.Go(func() { b.run(b.process) })
	return b
}

// process is what it does. One that is killed is told to end, and goes on as a ghost until it has.
func (b *berth) process() {
	defer close(b.over)
	go func() {
		select {
		case <-b.gone:
			b.signals <- unix.SIGTERM
		case <-b.over:
		}
	}()
	w, cfg := b.host.w, b.host.cfg
	log := b.logger()
	backend, err := rabbit.New(rabbit.Config{
		URLs: w.urls(b.host.number), Heartbeat: cfg.Heartbeat, Protocol: w.plan.Protocol, QueueType: cfg.QueueType,
		Contention: lock.Contention{Priority: cfg.Priority}, Host: b.host.name, PID: b.host.runs,
		Connect: func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, b.task, address) },
		Clock:   boottime.From(source{b.task}), Log: log,
	})
	if err != nil {
		panic(err)
	}
	b.outcome = loop.Run(supervisor.Config{
		ID: w.plan.Lock, Lock: backend.Lock(w.plan.Lock), Clock: boottime.From(source{b.task}),
		Launch: b.launch, Signals: b.signals, Stop: cfg.Stop, Loss: cfg.Loss,
		VerifyInterval: cfg.VerifyInterval, VerifyTimeout: cfg.VerifyTimeout, Margin: margin,
		OnLoss: supervisor.Retry, Restart: b.restart(), Holder: b.name, Log: log, Observer: b,
	})
}

// Observe implements supervisor.Observer.
func (b *berth) Observe(now supervisor.Situation) {
	b.host.w.mu.Lock()
	defer b.host.w.mu.Unlock()
	if b.state != now.State && !b.killed {
		b.host.w.note(b.name, "is %s (slot %d, term %d) %s", now.State, now.Slot, now.Term, now.Waiting)
	}
	b.state = now.State
}

// Beat implements supervisor.Observer.
func (b *berth) Beat() {}

// logger puts what berth logs into the history, if anybody is to read it.
func (b *berth) logger() hclog.Logger {
	if !b.host.w.plan.Verbose {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Output: writer{b}, Level: hclog.Debug, DisableTime: true})
}

type writer struct{ b *berth }

func (o writer) Write(line []byte) (int, error) {
	o.b.host.w.mu.Lock()
	defer o.b.host.w.mu.Unlock()
	if !o.b.killed {
		o.b.host.w.note(o.b.name, "log: %s", line[:max(0, len(line)-1)])
	}
	return len(line), nil
}

// urls returns the nodes, in an order of each host's own.
func (w *world) urls(of int) (all []string) {
	for i := range w.plan.Nodes {
		all = append(all, fmt.Sprintf("amqp://guest:guest@node%d", (of+i)%w.plan.Nodes))
	}
	return all
}

// launch implements supervisor.Config.Launch.
func (b *berth) launch() (supervisor.Guard, error) {
	if !b.await() {
		return nil, errReset
	}
	return newGuard(b), nil
}

// margin is how long before the end of its lease a command is dead.
const margin = 500 * time.Millisecond

// Contender is how the berths of one host are configured.
type Contender struct {
	Begin                         time.Duration // when the first one starts
	Heartbeat                     time.Duration
	VerifyInterval, VerifyTimeout time.Duration
	Stop, Loss                    signals.Sequence
	Restart                       supervisor.Restart
	Priority                      int
	Run                           time.Duration // for which commands run, on average
	Stubborn                      bool          // they ignore TERM
	Clock                         time.Duration // how far the host's wall clock is ahead
	QueueType                     rabbit.QueueType
}

// administer makes the lock where that has to be made.
func (w *world) administer() {
	if !w.plan.Lock.Kind.Administered() {
		return
	}
	admin := newHost(w, 99, Contender{})
	of := newTask(admin, "admin")
	backend, err := rabbit.New(rabbit.Config{
		URLs: w.urls(0), Protocol: w.plan.Protocol, QueueType: w.plan.QueueType, Host: "admin", PID: 1,
		Connect: func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, of, address) },
	})
	if err != nil {
		panic(err)
	}
	a := backend.Administrator(w.plan.Lock)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _, err = a.Resize(ctx, 0, func(int) (int, error) { return w.plan.Slots, nil })
	_ = a.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.history.Violate(w.now(), "admin", "cannot make the lock: %v", err)
	}
	of.end()
}

// term tells berth to end. The caller has world.mu.
func (h *host) term() {
	if h.berth != nil {
		h.w.note(h.berth.name, "--- gets TERM")
		h.told = h.w.now()
		select {
		case h.berth.signals <- unix.SIGTERM:
		default:
		}
	}
}

// restart is when its commands are started again in their slots: no more once the world ends.
func (b *berth) restart() supervisor.Restart {
	b.host.w.mu.Lock()
	defer b.host.w.mu.Unlock()
	if b.host.w.final {
		return supervisor.Never
	}
	return b.host.cfg.Restart
}
