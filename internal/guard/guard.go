package guard

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/supervisor"
)

// leaveTimeout bounds how long a guard that has told Dead, or has closed its
// connection, may take to end. It has nothing to do by then.
const leaveTimeout = 2 * time.Second

// Guard is the supervisor's hold on one guard process; see supervisor.Guard.
type Guard struct {
	host   *Host
	pid    int
	group  string // the control group that it makes, "" for none
	inner  bool   // it is in a PID namespace of its own
	conn   *net.UnixConn
	events chan supervisor.GuardEvent
	gone   chan struct{} // closed by the Host when the process was reaped
	asked  chan struct{} // closed by Start: something may run
	halt   sync.Mutex    // held while noteHalt tells, and while events is closed
	halted bool          // which was told, or cannot be any more

	settings atomic.Pointer[unix.Termios] // of the terminal before the command may have it; nil: berth does not have it
}

func newGuard(host *Host, conn *net.UnixConn, inner bool) *Guard {
	return &Guard{
		host:   host,
		inner:  inner,
		group:  newGroup(),
		conn:   conn,
		events: make(chan supervisor.GuardEvent, 16),
		gone:   make(chan struct{}),
		asked:  make(chan struct{}),
	}
}

// run passes on what the guard says until it is gone, and does its work where
// it died before it was done.
func (g *Guard) run() {
	defer g.endEvents()
	defer g.conn.Close()
	getReadyToTalk()
	in := newInbox(g.conn)
	var exited, overdue, dead bool
	var unusable error
	if g.inner {
		if unusable = awaitSettled(in); unusable != nil {
			g.host.kill(g)
			g.events <- supervisor.GuardEvent{Kind: supervisor.Unusable, Err: unusable}
		}
	}
	for unusable == nil {
		var event supervisor.GuardEvent
		if _, err := in.receive(&event); err != nil {
			break
		}
		exited = exited || event.Kind == supervisor.Exited
		overdue = overdue || event.Kind == supervisor.Overdue
		dead = dead || event.Kind == supervisor.Dead
		if dead { // nothing keeps the process any more but its will
			patience := leaveTimeout
			if overdue {
				patience += willTimeout
			}
			_ = g.conn.SetReadDeadline(time.Now().Add(patience))
		}
		if event.Pid != 0 && g.inner {
			event.Pid = outside(g.pid, event.Pid)
		}
		g.events <- event
	}
	g.awaitGone()
	select {
	case <-g.asked:
	default:
		return // nothing was ever started
	}
	if !dead {
		g.finish(exited)
	}
}

// noteHalt tells once that the guard was stopped. It does not wait for a
// supervisor that is busy: the Host calls it.
func (g *Guard) noteHalt() {
	g.halt.Lock()
	defer g.halt.Unlock()
	if g.halted {
		return
	}
	select {
	case g.events <- supervisor.GuardEvent{Kind: supervisor.Halted}:
		g.halted = true
	default:
	}
}

func (g *Guard) endEvents() {
	g.halt.Lock()
	defer g.halt.Unlock()
	g.halted = true
	close(g.events)
}

// awaitGone waits until the process has been reaped.
func (g *Guard) awaitGone() {
	patience := time.NewTimer(leaveTimeout)
	defer patience.Stop()
	select {
	case <-g.gone:
		return
	case <-patience.C:
	}
	g.host.kill(g)
	<-g.gone // KILL cannot be refused
}

// finish kills the tree of a guard that died. Its first process died with the
// guard, of its parent-death signal; the rest fell to this process.
func (g *Guard) finish(exited bool) {
	if g.group != "" {
		killCgroup(g.group)
	}
	g.host.killFallen(func(pid int) { g.events <- supervisor.GuardEvent{Kind: supervisor.Refused, Pid: pid} })
	if g.group != "" {
		removeCgroup(g.group)
	}
	takeBackFromDead(g.settings.Load())
	if !exited {
		g.events <- supervisor.GuardEvent{Kind: supervisor.Exited, Status: syscall.WaitStatus(unix.SIGKILL), Orphans: true}
	}
	g.events <- supervisor.GuardEvent{Kind: supervisor.Dead, Orphans: true}
}

// Bequeath implements supervisor.Guard.
func (g *Guard) Bequeath(will []byte) error { return g.order(order{Op: opWill, Will: will}) }

// Start implements supervisor.Guard.
func (g *Guard) Start(start supervisor.Start) error {
	g.settings.Store(settingsOfOurs())
	close(g.asked)
	return g.order(order{Op: opStart, Vars: start.Vars, Deadline: start.Deadline, Will: start.Will, files: start.Files})
}

// Renew implements supervisor.Guard.
func (g *Guard) Renew(deadline boottime.Instant) error {
	return g.order(order{Op: opDeadline, Deadline: deadline})
}

// Signal implements supervisor.Guard.
func (g *Guard) Signal(sig syscall.Signal, to supervisor.Scope) error {
	return g.order(order{Op: opSignal, Signal: sig, Scope: to})
}

// Freeze implements supervisor.Guard.
func (g *Guard) Freeze() error { return g.order(order{Op: opFreeze}) }

// Thaw implements supervisor.Guard.
func (g *Guard) Thaw() error { return g.order(order{Op: opThaw}) }

// Kill implements supervisor.Guard.
func (g *Guard) Kill() error { return g.order(order{Op: opKill}) }

// Abandon implements supervisor.Guard.
func (g *Guard) Abandon() { g.host.kill(g) }

// Retire implements supervisor.Guard.
func (g *Guard) Retire() {
	g.conn.Close() // the guard reads the end of its connection
	for range g.events {
	}
}

// Events implements supervisor.Guard.
func (g *Guard) Events() <-chan supervisor.GuardEvent { return g.events }

// order sends an order, or gives up on a guard that does not read them.
func (g *Guard) order(o order) error {
	_ = g.conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	return send(g.conn, o, o.files)
}
