// Package process is the guard's process: the parent of the command, which kills the
// command's whole tree when told, when its deadline passes, or when the supervisor is
// gone.
//
//	os.Exit(process.Main(os.Args, executeWill))
//
// It must be able to run with next to nothing initialised: it comes before each start
// of a command, and Go initialises whatever a package imports. So it knows no lock, no
// configuration and no supervisor but the messages of package wire, and is handed what
// executes a will.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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
const _ = uint64(wire.KillingInterval - tree.LongestPause)

// Executor executes a will: it tells the backend that the tree is dead, for a
// supervisor that cannot. It returns when ctx ends at the latest.
type Executor func(ctx context.Context, will []byte) error

// guard is the guard's process. One goroutine owns it: the one that waits and
// decides.
type guard struct {
	args       wire.Args
	supervisor *supervisor
	terminal   *terminal.Terminal
	forker     *forker
	tree       *tree.Tree
	children   chan os.Signal // has room for one: a child has changed its state

	phase    phase
	order    wire.Order // to start; holds the files open until this process ends
	will     []byte
	deadline boottime.Instant
	timer    *boottime.Timer // of deadline

	first       int                        // the command's first process, while it is not reaped
	reapedEarly map[int]syscall.WaitStatus // what was reaped while forking: perhaps the first process
	userWatch   userWatch

	killing       bool
	killOrdered   bool      // the supervisor wants to know that KILL was sent
	killTold      time.Time // when it was told last, zero: not yet
	refusalTold   bool      // that some process of the tree may not be signalled
	willIsToBeRun bool      // the supervisor is gone, or too late
}

// phase is how far the command is.
type phase int

const (
	idle    phase = iota // nothing was started
	forking              // the forker is at it
	running              // it was forked
	over                 // nothing of the tree is left, or the supervisor is gone and nothing was started
)

// errToldAlready says that the supervisor knows what failed, and says it.
var errToldAlready = errors.New("told already")

// Main is the guard's process. It is executed by guard.Host, never by users, and
// returns its exit status once the command's tree is dead.
func Main(args []string, execute Executor) int {
	const usage = 64
	g, err := newGuard(args)
	if err != nil {
		if !errors.Is(err, errToldAlready) {
			fmt.Fprintf(os.Stderr, "%s: %v; it is a part of berth and not to be started by hand\n", wire.Name, err)
		}
		return usage
	}
	g.run()
	if g.willIsToBeRun && g.will != nil {
		ctx, cancel := context.WithTimeout(context.Background(), wire.WillTimeout)
		defer cancel()
		_ = execute(ctx, g.will) // whoever waits for it waits for the handover delay instead
	}
	return 0
}

// newGuard prepares whatever can be prepared before a slot is won.
func newGuard(arguments []string) (*guard, error) {
	args, err := wire.ParseArgs(arguments)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(args.Conn)
	dropSignals()
	conn, err := wire.Open(args.Conn)
	if err != nil {
		return nil, err
	}
	if err := parent.BecomeSubreaper(); err != nil {
		return nil, err
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	s := &supervisor{conn: conn}
	if args.Namespace {
		if err := mountProc(s); err != nil {
			return nil, err
		}
	}
	parent.ReserveThreads()
	prepareToFork()
	wire.Prepare()
	forker := newForker(args)
	go forker.run()
	env := procfs.Kernel()
	return &guard{
		args: args, supervisor: s, terminal: terminal.New(env, groupOfParent()), forker: forker, timer: timer,
		tree:        &tree.Tree{Env: env, Namespace: args.Namespace},
		children:    make(chan os.Signal, 1),
		reapedEarly: make(map[int]syscall.WaitStatus),
	}, nil
}

// groupOfParent returns the supervisor's process group as a guard sees it, 0 if it
// has no number in this PID namespace.
func groupOfParent() int {
	if unix.Getppid() == 0 {
		return 0
	}
	group, err := unix.Getpgid(unix.Getppid())
	if err != nil {
		return 0
	}
	return group
}

// mountProc makes /proc show the processes of this PID namespace alone, and says so
// to the supervisor. Mounts on the host still appear in here, and go away again when
// they are unmounted there, so that berth keeps no file system busy; nothing goes the
// other way (MS_SLAVE, mount_namespaces(7)).
func mountProc(s *supervisor) error {
	if os.Getpid() != 1 {
		return errors.New("it is not the first process of a namespace")
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	if err != nil {
		errno, _ := err.(syscall.Errno)
		s.tell(wire.Event{Kind: wire.NotMounted, Errno: errno}, wire.SendTimeout)
		return errToldAlready
	}
	s.tell(wire.Event{Kind: wire.ProcMounted}, wire.SendTimeout)
	return nil
}

// run ends when the tree is dead, or when the supervisor is gone before
// anything was started.
func (g *guard) run() {
	signal.Notify(g.children, unix.SIGCHLD)
	orders := g.supervisor.orders()
	for g.phase != over {
		if g.overdue() {
			g.willIsToBeRun = true
			g.kill()
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
				g.tree.FreezeRest(g.deadline.Passed)
			}
		case <-g.terminal.Retry():
			if g.terminal.Look(g.first) {
				g.continueGroup()
			}
		case <-g.userWatch.next:
			g.lookAtUser()
		}
	}
	g.tree.Close()
}

// overdue reports whether the deadline has passed and nothing was killed yet.
func (g *guard) overdue() bool { return g.phase != idle && !g.killing && g.deadline.Passed() }

func (g *guard) noteSupervisorGone() {
	g.willIsToBeRun = true
	if g.phase == idle {
		g.phase = over
	}
	g.kill()
}

// tell reports an event. A supervisor that does not read may keep the guard from
// nothing that is urgent: not from the deadline, and not from killing what is left.
func (g *guard) tell(event wire.Event) {
	timeout := wire.SendTimeout
	last := event.Kind == wire.Dead || event.Kind == wire.Exited && !event.Left
	if !last && (g.killing || g.supervisor.unresponsive) {
		timeout = 0
	}
	if !last && g.deadline != 0 {
		timeout = min(timeout, g.deadline.Until())
	}
	g.supervisor.tell(event, timeout)
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
			g.tree.Freeze(g.deadline.Passed)
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
	g.tell(wire.Event{Kind: wire.Accepted})
	g.order, g.will = o, o.Will
	if err := g.setDeadline(o.Deadline); err != nil {
		g.fail(err)
		return
	}
	if g.deadline.Passed() {
		g.tell(wire.Event{Kind: wire.Overdue})
		g.finish()
		return
	}
	g.tree.Cgroup = tree.MakeCgroup(g.args.Cgroup)
	g.fork()
}

// reap takes what children ended or stopped, and sees whether any are left.
func (g *guard) reap() {
	var ended *syscall.WaitStatus // the command's first process
	var stop syscall.Signal       // its last one
	each := func(pid int, status syscall.WaitStatus) {
		if !status.Stopped() {
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
		had := g.terminal.Ended(ended.Signaled())
		g.tell(wire.Event{Kind: wire.Exited, Status: *ended, Left: left, Terminal: had})
	}
	if !left && g.phase == running && g.first == 0 {
		g.finish()
	}
}

// finish tells that no process of the tree is left.
func (g *guard) finish() {
	if g.phase != over {
		g.phase = over
		g.tell(wire.Event{Kind: wire.Dead})
	}
}
