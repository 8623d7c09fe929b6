package process

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/parent"
	"berth/internal/guard/procfs"
	"berth/internal/guard/terminal"
	"berth/internal/guard/tree"
	"berth/internal/guard/wire"
)

// A tree that does not end is looked at, and told of, often enough.
const _ = uint64(wire.KillingInterval - tree.MaxPause)

// guard is the guard's process. One goroutine owns it: the one that waits and
// decides. Until there is a command to be forked that is the forker's.
type guard struct {
	command    wire.Command
	supervisor *supervisor
	terminal   *terminal.Terminal
	forker     *forker
	tree       *tree.Tree
	children   chan os.Signal // has room for one: a child has changed its state

	phase    phase
	garbage  int        // pieces since it was collected
	order    wire.Order // to start; holds the files open until this process ends
	will     []byte
	wills    chan<- []byte // has room for one: the will, once it is to be executed
	willing  bool          // that is so
	beside   *os.File      // locked while something runs beside the command; nil: nothing ever does
	deadline boottime.Instant
	timer    *boottime.Timer // of deadline

	first       int                        // the command's first process, while it is not reaped
	reapedEarly map[int]syscall.WaitStatus // what was reaped while forking: perhaps the first process
	userWatch   userWatch

	killing     bool
	killOrdered bool      // the supervisor wants to know that KILL was sent
	killTold    time.Time // when it was told last, zero: not yet
	refusalTold bool      // that some process of the tree may not be signalled

	survivorTold bool // that KILL does not end some process
}

// phase is how far the command is.
type phase int

const (
	idle    phase = iota // nothing was started
	forking              // the forker forks it
	running              // it was forked
	over                 // nothing of the tree is left, or the supervisor is gone and nothing was started
)

// run ends when the tree is dead, or when the supervisor is gone before
// anything was started.
func (g *guard) run() {
	signal.Notify(g.children, unix.SIGCHLD)
	begun := make(chan struct{})
	go g.forker.run(func() {
		g.awaitStart()
		close(begun) // everything but the forker is this goroutine's again
	})
	<-begun
	orders := g.supervisor.orders()
	for g.phase != over {
		g.collectGarbage()
		if g.overdue() {
			g.kill()
			g.handOverWill()
			continue
		}
		select {
		case o, open := <-orders:
			if !open {
				orders = nil
				g.noteSupervisorGone()
				continue
			}
			g.obey(o)
		case f := <-g.forker.results:
			g.noteForked(f)
		case <-g.children:
			g.reap()
		case <-g.timer.C:
		case <-g.tree.KillAgain():
			g.kill()
		case <-g.tree.FreezeAgain():
			if !g.killing {
				g.tree.FreezeRest()
			}
		case <-g.terminal.Retry():
			if g.terminal.Look(g.first) {
				g.continueGroup()
			}
		case <-g.terminal.Watch():
			g.noteHangup()
		case <-g.userWatch.next:
			g.lookAtUser()
		}
	}
	g.awaitSupervisor(orders)
	if g.willing {
		g.awaitBeside()
	} else {
		giveWay()
	}
	g.tree.Close()
}

// awaitStart obeys orders until the command is to be forked, or never will be. The forker
// calls it, and the loop begins when it returns.
func (g *guard) awaitStart() {
	for g.phase == idle {
		g.collectGarbage()
		o, err := g.supervisor.order()
		if err != nil {
			g.noteSupervisorGone()
			return
		}
		g.obey(o)
	}
}

// piecesOfCollection is after how much garbage the guard collects it itself (see package launch). A piece, of a few KiB
// at most, is what a round of its loop leaves, or the name of a process or thread that was looked at.
const piecesOfCollection = 1000

// collectGarbage does so after enough of it, and not while the command is forked: it
// stops all threads, and the one that forks can be in vfork(2) for ever.
func (g *guard) collectGarbage() {
	g.garbage++
	if g.garbage >= piecesOfCollection && g.phase != forking {
		g.garbage = 0
		runtime.GC()
	}
}

// countNames has g count what it looks at as garbage.
func (g *guard) countNames(env *procfs.Env) {
	readNames := env.ReadNames
	env.ReadNames = func(dir string) ([]string, error) {
		names, err := readNames(dir)
		g.garbage += len(names)
		return names, err
	}
}

// overdue reports whether the deadline has passed and nothing was killed yet.
func (g *guard) overdue() bool { return g.phase != idle && !g.killing && g.deadline.Passed() }

func (g *guard) noteSupervisorGone() {
	if g.phase == idle {
		g.phase = over
	}
	g.kill()
	g.handOverWill()
}

// handOverWill has the will executed, if there is one: the supervisor is gone, or too
// late. KILL has been sent to the tree by then.
func (g *guard) handOverWill() {
	if g.will == nil {
		return
	}
	g.willing = true
	select {
	case g.wills <- g.will:
	default: // it was handed over before
	}
}

// tell reports an event. A supervisor that does not read may keep the guard from
// nothing that is urgent: not from the deadline, and not from killing what is left.
func (g *guard) tell(event wire.Event) (told bool) {
	timeout := wire.SendTimeout
	last := event.Kind == wire.Dead || event.Kind == wire.Exited && !event.Left
	if !last && (g.killing || g.supervisor.unresponsive) {
		timeout = 0
	}
	if !last && g.deadline != 0 {
		timeout = min(timeout, g.deadline.Until())
	}
	return g.supervisor.tell(event, timeout)
}

func (g *guard) obey(o wire.Order) {
	switch o.Op {
	case wire.OpWill:
		g.will = o.Will
	case wire.OpStart:
		g.start(o)
	case wire.OpDeadline:
		if g.setDeadline(o.Deadline) != nil {
			g.kill() // a deadline that would not be kept
		}
	case wire.OpSignal:
		g.signal(o.Signal, o.Scope)
	case wire.OpFreeze:
		if (g.phase == forking || g.phase == running) && !g.killing {
			g.tree.Freeze()
		}
	case wire.OpThaw:
		g.tree.Thaw()
	case wire.OpKill:
		g.killOrdered = true
		g.kill()
	}
}

func (g *guard) setDeadline(deadline boottime.Instant) error {
	g.deadline = deadline
	return g.timer.Set(deadline)
}

// start has the command forked, unless its deadline has passed on the way here.
func (g *guard) start(o wire.Order) {
	if g.phase != idle {
		return
	}
	if last := len(o.Files) - 1; o.Beside && last >= 0 {
		g.beside, o.Files = o.Files[last], o.Files[:last]
	}
	g.order, g.will = o, o.Will
	if err := g.setDeadline(o.Deadline); err != nil {
		g.tell(wire.Event{Kind: wire.Accepted})
		g.fail(err)
		return
	}
	tree.RemoveLeft(g.command.Cgroup) // what ran in this slot before may be in one
	if !g.tell(wire.Event{Kind: wire.Accepted}) {
		g.phase = over // a supervisor that does not know of it would have the command started again
		return
	}
	if g.deadline.Passed() {
		g.tell(wire.Event{Kind: wire.Overdue})
		g.finish()
		return
	}
	g.fork()
}

// reap takes what children ended or stopped, and sees whether any are left. It reports
// whether one has ended.
func (g *guard) reap() (some bool) {
	var ended *syscall.WaitStatus // the command's first process
	var stop syscall.Signal       // its last one
	each := func(pid int, status syscall.WaitStatus) {
		if !status.Stopped() {
			some = true
			g.tree.NoteEnd()
		}
		switch {
		case g.phase == forking:
			g.reapedEarly[pid] = status
		case pid != g.first:
		case status.Stopped():
			stop = status.StopSignal()
		default:
			ended = &status
			g.first, g.tree.Led = 0, false
		}
	}
	if g.phase != forking {
		for pid, status := range g.reapedEarly {
			each(pid, status)
		}
		clear(g.reapedEarly)
	}
	left := parent.Reap(g.children, each)
	if stop != 0 && g.first != 0 && !g.killing {
		g.noteStopped(stop)
	}
	if ended != nil {
		g.noteEnd(*ended, left)
	}
	if !left && g.phase == running && g.first == 0 {
		g.finish()
	}
	return some
}

// noteEnd is for the end of the command's first process.
func (g *guard) noteEnd(status syscall.WaitStatus, left bool) {
	g.noteHangup()
	had := g.terminal.Ended(status.Signaled())
	if !left {
		g.unlock()
	}
	g.tell(wire.Event{Kind: wire.Exited, Status: status, Left: left, Terminal: had})
	if !left {
		g.phase = over
	}
}

// finish tells that no process of the tree is left.
func (g *guard) finish() {
	if g.phase != over {
		g.phase = over
		g.unlock()
		g.tell(wire.Event{Kind: wire.Dead})
	}
}
