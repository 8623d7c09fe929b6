package guard

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/launch"
	"berth/internal/guard/terminal"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// leaveTimeout is after how long a guard that has told Dead, or has closed its
// connection, and has nothing to do any more, is killed.
const leaveTimeout = 2 * time.Second

// Guard is the supervisor's hold on one guard process; see supervisor.Guard.
type Guard struct {
	host      *Host
	pid       int
	cgroup    string // the directory of the control group that it makes, "" for none
	namespace bool   // it is in a PID namespace of its own
	conn      *wire.Conn
	events    chan wire.Event
	gone      chan struct{} // closed by the Host when the process was reaped
	started   chan struct{} // closed by Start: something may run
	silence   silence

	haltMu   sync.Mutex // held while noteHalt tells, and while events is closed
	haltTold bool       // guarded by haltMu; also set when it cannot be told any more

	settings atomic.Pointer[unix.Termios] // of the terminal before the command may have it; nil: berth does not have it
}

func newGuard(host *Host, p *launch.Process, namespace bool) *Guard {
	return &Guard{
		host:      host,
		pid:       p.PID,
		namespace: namespace,
		cgroup:    host.env.newCgroup(),
		conn:      p.Conn,
		events:    make(chan wire.Event, 16),
		gone:      make(chan struct{}),
		started:   make(chan struct{}),
		silence:   silence{conn: p.Conn},
	}
}

// run passes on what the guard says until it is gone, and does its work where
// it died before it was done.
func (g *Guard) run() {
	defer g.endEvents()
	defer g.conn.Close()
	exited, dead := g.passOn()
	g.awaitGone(dead)
	select {
	case <-g.started:
	default: // nothing was ever started
		removeCgroup(g.cgroup)
		return
	}
	if !dead {
		g.finish(exited)
	}
}

// passOn passes on events until the guard says no more. One that was silent for too long is killed, and what it has
// said by its end is passed on: the command may have been started.
func (g *Guard) passOn() (exited, dead bool) {
	var overdue bool
	for {
		var e wire.Event
		_, err := g.conn.Receive(&e)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !dead:
			e = wire.Event{Kind: wire.Silent}
			g.host.kill(g)
		case err != nil:
			return exited, dead
		case e.Kind == wire.NotMounted:
			e = wire.Event{Kind: wire.Unusable, Err: notMounted(e.Errno)}
		}
		last := e.Kind == wire.Exited && !e.Left
		exited = exited || e.Kind == wire.Exited
		overdue = overdue || e.Kind == wire.Overdue
		dead = dead || e.Kind == wire.Dead || last
		if !dead {
			g.silence.broken()
		} else { // nothing keeps the process any more but its will
			_ = g.SetWill(nil) // berth gives the slot back
			timeout := leaveTimeout
			if overdue {
				timeout += wire.WillTimeout
			}
			g.silence.last(timeout)
		}
		if e.Pid != 0 && g.namespace {
			e.Pid = outside(g.host.env.procfs, g.pid, e.Pid)
		}
		if e.Kind == wire.Lasting {
			e = lasting(e.Pid, e.Left)
		}
		g.events <- e
		if last {
			g.events <- wire.Event{Kind: wire.Dead}
		}
	}
}

// noteHalt tells once that the guard was stopped. It does not wait for a
// supervisor that is busy: the Host calls it.
func (g *Guard) noteHalt() {
	g.haltMu.Lock()
	defer g.haltMu.Unlock()
	if g.haltTold {
		return
	}
	select {
	case g.events <- wire.Event{Kind: wire.Halted}:
		g.haltTold = true
	default:
	}
}

func (g *Guard) endEvents() {
	g.haltMu.Lock()
	defer g.haltMu.Unlock()
	g.haltTold = true
	close(g.events)
}

// awaitGone waits until the process has been reaped, which KILL brings about: it cannot be
// refused. One whose tree is dead is not waited for for ever: the kernel keeps the first
// process of a PID namespace for as long as a tracer keeps a dead one in there.
func (g *Guard) awaitGone(dead bool) {
	timeout := time.NewTimer(leaveTimeout)
	defer timeout.Stop()
	for killed := false; ; killed = true {
		select {
		case <-g.gone:
			return
		case <-timeout.C:
		}
		g.host.kill(g)
		if killed && (dead || g.namespace && g.onlyDead()) {
			return
		}
		timeout.Reset(leaveTimeout)
	}
}

// onlyDead reports whether nothing lives below a guard that was killed as the first
// process of its namespace, so that everything in there is its child. It tells of one
// that is kept dead.
func (g *Guard) onlyDead() bool {
	pid, dead := g.host.env.procfs.AllDead(g.pid, nil)
	if dead {
		g.events <- lasting(pid, false)
	}
	return dead
}

// finish kills the tree of a guard that died. Its first process died with the
// guard, of its parent-death signal; the rest fell to this process.
func (g *Guard) finish(exited bool) {
	g.host.killOrphans(g.cgroup, func(event wire.Event) { g.events <- event })
	terminal.TakeBack(g.host.env.procfs, g.settings.Load())
	if !exited {
		g.events <- wire.Event{Kind: wire.Exited, Status: syscall.WaitStatus(unix.SIGKILL),
			Orphans: true}
	}
	g.events <- wire.Event{Kind: wire.Dead, Orphans: true}
}

// SetWill implements supervisor.Guard.
func (g *Guard) SetWill(will []byte) error {
	return g.order(wire.Order{Op: wire.OpWill, Will: will})
}

// Start implements supervisor.Guard.
func (g *Guard) Start(start supervisor.Start) error {
	g.host.awaitPrepared()
	g.settings.Store(terminal.Settings())
	close(g.started)
	g.silence.ordered(false)
	files := start.Files
	if start.Beside != nil {
		files = append(slices.Clone(files), start.Beside)
	}
	return g.order(wire.Order{
		Op: wire.OpStart, Vars: start.Vars, Deadline: start.Deadline, Will: start.Will, Files: files,
		Last: start.Last, Beside: start.Beside != nil,
	})
}

// Renew implements supervisor.Guard.
func (g *Guard) Renew(deadline boottime.Instant) error {
	return g.order(wire.Order{Op: wire.OpDeadline, Deadline: deadline})
}

// Signal implements supervisor.Guard.
func (g *Guard) Signal(sig syscall.Signal, to wire.Scope) error {
	return g.order(wire.Order{Op: wire.OpSignal, Signal: sig, Scope: to})
}

// Freeze implements supervisor.Guard.
func (g *Guard) Freeze() error { return g.order(wire.Order{Op: wire.OpFreeze}) }

// Thaw implements supervisor.Guard.
func (g *Guard) Thaw() error { return g.order(wire.Order{Op: wire.OpThaw}) }

// Kill implements supervisor.Guard.
func (g *Guard) Kill() error {
	g.silence.ordered(true)
	return g.order(wire.Order{Op: wire.OpKill})
}

// Abandon implements supervisor.Guard.
func (g *Guard) Abandon() { g.host.kill(g) }

// Retire implements supervisor.Guard.
func (g *Guard) Retire() {
	g.conn.Close() // the guard reads the end of its connection
	for range g.events {
	}
}

// Events implements supervisor.Guard.
func (g *Guard) Events() <-chan wire.Event { return g.events }

// order sends an order, or gives up on a guard that does not read them.
func (g *Guard) order(o wire.Order) error { return g.conn.Send(o, o.Files, wire.SendTimeout) }
