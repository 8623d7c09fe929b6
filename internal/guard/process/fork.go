package process

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/guard/parent"
	"berth/internal/guard/wire"
)

// forker forks the command beside the guard's loop, on a thread of its own: to fork takes as
// long as the program's file takes to be opened and read, which on a network file system can
// be for ever.
type forker struct {
	command  wire.Command
	requests chan *syscall.ProcAttr // never closed
	results  chan forked            // one for each request

	// undecided: nothing of the request has been forked. The one that decides clears it:
	// the thread, which then forks, or the guard, which has to kill the command.
	undecided atomic.Bool
}

// forked is how forking the command went.
type forked struct {
	pid int
	err error
}

// errTooLate says that nothing was forked, because the tree is to be dead.
var errTooLate = errors.New("too late to start the command")

func newForker(command wire.Command) *forker {
	return &forker{command: command, requests: make(chan *syscall.ProcAttr, 1), results: make(chan forked, 1)}
}

// begin has the command forked, and a result told.
func (f *forker) begin(attr *syscall.ProcAttr) {
	f.undecided.Store(true)
	f.requests <- attr
}

// decide reports whether it was this call that decided about the request.
func (f *forker) decide() bool { return f.undecided.CompareAndSwap(true, false) }

// run waits for the first request, and then keeps its thread, which forks. The command's
// death signal comes when the thread that forked it ends, not the process
// (PR_SET_PDEATHSIG(2const)): this one lives as long as the process. It is the one that the
// order has woken: another would have to be woken first.
//
// What the command may not have is taken from this thread before it forks.
//
// To go to the command's directory can take long as well, on a network file system
// for ever, and there is nothing to be killed yet: if the guard has decided by then,
// nothing is forked.
func (f *forker) run(await func()) {
	await()
	runtime.LockOSThread()
	parent.UnblockStops(f.command.Blocked)
	restricted := f.command.Rights.Restrict()
	dir := f.command.Dir
	if f.command.Enter != "" {
		dir = ""
	}
	for attr := range f.requests {
		pid, err := inDir(dir, func() (int, error) {
			switch {
			case !f.decide():
				return 0, errTooLate
			case restricted != nil:
				return 0, restricted
			}
			return forkCommand(f.command, attr)
		})
		f.results <- forked{pid, err}
	}
}

// inDir runs fork in the directory, "" being this one. The command inherits its
// working directory rather than enter it: berth may, and its user may be another.
// A guard waits in "/" otherwise, so that the file system can be unmounted.
func inDir(dir string, fork func() (pid int, err error)) (pid int, err error) {
	if dir == "" {
		return fork()
	}
	if err := unix.Chdir(dir); err != nil {
		return 0, err
	}
	defer func() { _ = unix.Chdir("/") }()
	return fork()
}

// fork has the command forked. Meanwhile deadline, orders and the supervisor's end are
// handled; what has been forked is below this process, so kill finds it.
func (g *guard) fork() {
	// What must not have the terminal is in a session of its own, which leads a group too: a terminal stops what is in
	// its session and uses it from the background, and /dev/tty is that of nobody else.
	sys := &syscall.SysProcAttr{Setsid: g.command.Aside, Setpgid: !g.command.Aside, Pdeathsig: unix.SIGKILL,
		Credential: g.command.Credential}
	if g.tree.Cgroup != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, g.tree.Cgroup.FD()
	}
	g.phase = forking
	g.forker.begin(&syscall.ProcAttr{Dir: g.command.Enter, Env: slices.Concat(g.command.Env, g.order.Vars),
		Files: []uintptr{0, 1, 2}, Sys: sys})
}

// noteForked goes on when the command's number is known.
func (g *guard) noteForked(f forked) {
	if g.phase != forking {
		return // the guard did not wait for it
	}
	g.phase = running
	switch {
	case errors.Is(f.err, errTooLate): // which is told as the end of a command that was killed
		g.tell(wire.Event{Kind: wire.Started})
		g.tell(wire.Event{Kind: wire.Exited, Status: syscall.WaitStatus(unix.SIGKILL)})
		g.phase = over
	case f.err != nil && g.tree.Cgroup != nil && !g.killing:
		// Some groups cannot be forked into (clone(2), CLONE_INTO_CGROUP), and
		// /proc leads to the tree as well.
		g.tree.Close()
		clear(g.reapedEarly)
		g.fork()
	case f.err != nil:
		g.fail(f.err)
	default:
		g.first, g.tree.Group, g.tree.Led = f.pid, f.pid, true
		g.terminal.Offer(f.pid)
		g.tell(wire.Event{Kind: wire.Started, Pid: f.pid})
		g.watchUser()
		if g.killing {
			g.kill() // it has not run for longer than that takes
		}
		g.reap()
	}
}

// fail tells that the command was not started, and why.
func (g *guard) fail(err error) {
	errno := syscall.EIO
	errors.As(err, &errno)
	g.tell(wire.Event{Kind: wire.NotStarted, Errno: errno})
	g.finish()
}
