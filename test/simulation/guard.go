package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
	"berth/lock/rabbit"
	"berth/supervisor"
)

// willTimeout is for how long a guard tries to execute a will, once the tree is dead.
const willTimeout = 10 * time.Second

// guard is a guard, and what berth has of it. One goroutine is the guard's process.
type guard struct {
	*task
	berth  *berth
	orders chan order
	told   chan wire.Event         // by the guard; closed when it is gone
	events chan wire.Event         // which berth receives
	silent *time.Timer             // berth's, for as long as the guard may say nothing
	toKill bool                    // berth has told it to; world.mu guards this
	exits  chan syscall.WaitStatus // how the command has ended
	timer  *timer
	over   chan struct{} // closed when the process has ended

	// The guard's goroutine owns what follows.
	accepted bool // the order to start
	will     []byte
	willing  bool // it executes the will
	deadline boottime.Instant
	command  *command
	dead     chan struct{} // closed when the tree is dead
	killing  bool
	ordered  bool // to kill
}

// order is what berth tells its guard.
type order struct {
	what     string // will, start, renew, signal, kill, retire
	will     []byte
	start    supervisor.Start
	deadline boottime.Instant
	signal   syscall.Signal
}

func newGuard(b *berth) *guard {
	w := b.host.w
	w.mu.Lock()
	defer w.mu.Unlock()
	g := &guard{
		task: newTask(b.host, fmt.Sprintf("%s.g%d", b.name, w.number())), berth: b, orders: make(chan order, 1000),
		told: make(chan wire.Event, 100), events: make(chan wire.Event, 100),
		exits: make(chan syscall.WaitStatus, 1), dead: make(chan struct{}), over: make(chan struct{}),
		silent: time.NewTimer(0),
	}
	g.silent.Stop()
	g.timer = b.host.clock.newTimer(g.task)
	b.host.guards = append(b.host.guards, g)
	go g.run(g.process)
	go g.passOn()
	return g
}

// order has an order reach the guard, if berth lives.
func (g *guard) order(o order) error {
	w := g.host.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.killed {
		return errors.New("the guard is gone")
	}
	g.berth.does(func() {
		if o.what == "start" {
			w.step(g.berth.task, "order start")
		}
		w.note(g.berth.name, "orders %s", o.what)
		if (o.what == "start" || o.what == "kill") && !g.isDead() {
			g.toKill = g.toKill || o.what == "kill"
			g.silent.Reset(silence)
		}
		select {
		case g.orders <- o:
		default:
		}
	})
	return nil
}

// SetWill implements supervisor.Guard.
func (g *guard) SetWill(will []byte) error { return g.order(order{what: "will", will: will}) }

// Start implements supervisor.Guard.
func (g *guard) Start(s supervisor.Start) error { return g.order(order{what: "start", start: s}) }

// Renew implements supervisor.Guard.
func (g *guard) Renew(deadline boottime.Instant) error {
	return g.order(order{what: "renew", deadline: deadline})
}

// Signal implements supervisor.Guard.
func (g *guard) Signal(sig syscall.Signal, _ wire.Scope) error {
	return g.order(order{what: "signal", signal: sig})
}

// Freeze implements supervisor.Guard.
func (g *guard) Freeze() error { return nil }

// Thaw implements supervisor.Guard.
func (g *guard) Thaw() error { return nil }

// Kill implements supervisor.Guard.
func (g *guard) Kill() error { return g.order(order{what: "kill"}) }

// Abandon implements supervisor.Guard.
func (g *guard) Abandon() {
	g.host.w.mu.Lock()
	defer g.host.w.mu.Unlock()
	g.berth.does(func() { g.die("killed by its berth") })
}

// Retire implements supervisor.Guard.
func (g *guard) Retire() {
	_ = g.order(order{what: "retire"})
	for range g.events {
	}
}

// Events implements supervisor.Guard.
func (g *guard) Events() <-chan wire.Event { return g.events }

// silence is for how long a guard may say nothing that is to start or to kill.
const silence = 2 * time.Second

// passOn tells berth, unless that is stopped, and kills a guard that was silent for too long. It is a part of berth.
func (g *guard) passOn() {
	defer close(g.events)
	for {
		select {
		case event, open := <-g.told:
			alive := g.berth.await()
			if !open {
				return
			}
			if alive {
				g.heard(event)
				g.events <- event
			}
		case <-g.silent.C:
			if g.berth.await() && len(g.told) == 0 {
				g.Abandon()
				g.events <- wire.Event{Kind: wire.Silent}
			}
		}
	}
}

// heard is for what the guard has said. While it kills, it may be silent for a while alone.
func (g *guard) heard(event wire.Event) {
	g.host.w.mu.Lock()
	g.silent.Stop()
	if g.toKill && !g.isDead() {
		g.silent.Reset(wire.KillingInterval + silence)
	}
	g.host.w.mu.Unlock()
	if event.Kind == wire.Dead {
		_ = g.SetWill(nil)
	}
}

// die kills the guard, and the command's first process with it. The caller has world.mu.
func (g *guard) die(how string) {
	g.kill(how)
	if g.command != nil {
		g.command.end("its guard has died")
	}
}

// process is what it does.
func (g *guard) process() {
	defer close(g.over)
	defer close(g.told)
	berthGone := g.berth.gone
	for !g.finished() {
		select {
		case o := <-g.orders:
			if g.pause() {
				g.obey(o)
			}
		case <-g.timer.c:
			g.pause()
		case status := <-g.exits:
			if g.pause() {
				g.noteEnd(status)
			}
		case <-berthGone:
			if berthGone = nil; g.pause() {
				g.noteGone()
			}
		case <-g.gone:
			g.timer.end()
			g.noteDeath()
			return
		}
	}
	g.timer.end()
	g.host.w.mu.Lock()
	g.end()
	g.host.w.mu.Unlock()
}

// pause is for a process that is scheduled, after a moment. It looks at the deadline first, and reports whether the
// process lives.
func (g *guard) pause() bool {
	g.host.w.mu.Lock()
	moment := 20*time.Microsecond + time.Duration(g.host.w.random.Int64N(int64(200*time.Microsecond)))
	g.host.w.mu.Unlock()
	time.Sleep(moment)
	if !g.await() {
		return false
	}
	g.host.w.mu.Lock()
	overdue := g.command != nil && !g.killing && g.deadline != 0 && g.host.clock.now() >= g.deadline
	g.host.w.mu.Unlock()
	if overdue && !g.isDead() {
		g.tell(wire.Event{Kind: wire.Overdue})
		g.killTree("its deadline has passed")
		g.execute()
	}
	return true
}

func (g *guard) isDead() bool {
	select {
	case <-g.dead:
		return true
	default:
		return false
	}
}

// finished reports whether nothing is left to do: its tree is dead and nobody needs the will any more.
func (g *guard) finished() bool { return g.isDead() && g.will == nil && !g.willing }

func (g *guard) tell(event wire.Event) {
	g.host.w.mu.Lock()
	g.host.w.note(g.name, "tells %s", event.Kind)
	g.host.w.mu.Unlock()
	g.told <- event
}

func (g *guard) obey(o order) {
	switch o.what {
	case "will":
		if !g.willing {
			g.will = o.will
		}
	case "start":
		g.start(o.start)
	case "renew":
		g.deadline = o.deadline
		g.timer.set(o.deadline)
	case "signal":
		g.host.w.mu.Lock()
		if g.command != nil {
			g.command.signal(o.signal)
		}
		g.host.w.mu.Unlock()
	case "kill":
		g.ordered = true
		g.killTree("killed")
		g.tell(wire.Event{Kind: wire.Killing})
	case "retire":
		g.noteGone()
	}
}

// start forks the command. It may be killed in between.
func (g *guard) start(s supervisor.Start) {
	if g.accepted || g.isDead() {
		return
	}
	g.accepted, g.will, g.deadline = true, s.Will, s.Deadline
	g.timer.set(s.Deadline)
	g.tell(wire.Event{Kind: wire.Accepted})
	w := g.host.w
	w.mu.Lock()
	w.step(g.task, "accepted")
	w.mu.Unlock()
	if !g.pause() {
		return
	}
	w.mu.Lock()
	late := s.Deadline != 0 && g.host.clock.now() >= s.Deadline
	if !late && !g.killed {
		g.command = newCommand(g, number(s.Vars, "BERTH_SLOT"), uint64(number(s.Vars, "BERTH_TERM")))
	}
	w.mu.Unlock()
	if late {
		g.tell(wire.Event{Kind: wire.Overdue})
		g.tell(wire.Event{Kind: wire.Dead})
		close(g.dead)
		return
	}
	if g.pause() {
		g.tell(wire.Event{Kind: wire.Started, Pid: g.command.span.ID})
	}
}

// number returns the value of a variable of the command's environment.
func number(vars []string, name string) int {
	i := slices.IndexFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if i < 0 {
		return 0
	}
	n, _ := strconv.Atoi(vars[i][len(name)+1:])
	return n
}

func (g *guard) killTree(why string) {
	g.killing = true
	if g.command == nil {
		return
	}
	g.host.w.mu.Lock()
	defer g.host.w.mu.Unlock()
	g.command.endSoon(why, syscall.WaitStatus(unix.SIGKILL))
}

// noteEnd is for a tree that is dead.
func (g *guard) noteEnd(status syscall.WaitStatus) {
	if g.isDead() {
		return
	}
	close(g.dead)
	g.tell(wire.Event{Kind: wire.Exited, Status: status})
	g.tell(wire.Event{Kind: wire.Dead})
	if !g.berth.lives() {
		g.execute()
	}
}

func (t *task) lives() bool {
	t.host.w.mu.Lock()
	defer t.host.w.mu.Unlock()
	return !t.killed
}

// noteGone is for a berth that is gone.
func (g *guard) noteGone() {
	g.killTree("its berth is gone")
	if g.command == nil && !g.isDead() {
		close(g.dead)
	}
	g.execute()
}

// noteDeath is for this process, which was killed: berth, if it lives, kills what is left.
func (g *guard) noteDeath() {
	if g.accepted && !g.isDead() {
		g.told <- wire.Event{Kind: wire.Exited, Status: syscall.WaitStatus(unix.SIGKILL), Orphans: true}
		g.told <- wire.Event{Kind: wire.Dead, Orphans: true}
	}
}

// execute has the will executed, if there is one, once the tree is dead.
func (g *guard) execute() {
	if g.will == nil || g.willing {
		return
	}
	g.willing = true
	g.host.w.mu.Lock()
	g.host.w.step(g.task, "will")
	g.host.w.mu.Unlock()
	will := g.will
	go func() {
		executor, err := rabbit.PrepareWill(will, func(ctx context.Context, address string) (net.Conn, error) {
			return g.host.w.dial(ctx, g.task, address)
		})
		if err != nil {
			panic(err)
		}
		select {
		case <-g.dead:
		case <-g.gone:
		}
		ctx, cancel := context.WithTimeout(context.Background(), willTimeout)
		defer cancel()
		stop := context.AfterFunc(ctx, func() {})
		defer stop()
		go func() {
			select {
			case <-g.gone:
				cancel()
			case <-ctx.Done():
			}
		}()
		err = executor.Execute(ctx)
		g.host.w.mu.Lock()
		if !g.killed {
			g.host.w.note(g.name, "has executed the will: %v", err)
		}
		g.end()
		g.host.w.mu.Unlock()
	}()
}
