package guard

import (
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/supervisor"
)

// forked is how forking the command went.
type forked struct {
	pid int
	err error
}

// errLate says that nothing was forked, because the tree is to be dead.
var errLate = errors.New("too late to start the command")

// stage is the one in which nothing has been forked yet. Who leaves it first
// decides whether the command is forked: the thread that forks it, or the guard
// that has to kill it. Its zero value has been left.
type stage struct{ before atomic.Bool }

func (s *stage) enter() { s.before.Store(true) }

// leave reports whether it was this call that left the stage.
func (s *stage) leave() bool { return s.before.CompareAndSwap(true, false) }

// fork has the command forked beside the helper's loop: it takes as long as the
// program's file takes to be opened and read, which on a network file system can
// be for ever. Meanwhile deadline, orders and the supervisor's end are heeded;
// what has been forked is below this process, so kill finds it.
func (h *helper) fork() {
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if h.cgroup != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, h.cgroup.fd()
	}
	if h.login != nil {
		sys.Credential = h.login.credential()
	}
	h.forking = true
	h.stage.enter()
	h.forks <- &syscall.ProcAttr{Env: append(os.Environ(), h.vars...), Files: []uintptr{0, 1, 2}, Sys: sys}
}

// forkOn forks whenever it is told how, on a thread of its own that is there
// before it is needed. The command's death signal comes when the thread that
// forked it ends, not the process (PR_SET_PDEATHSIG(2const)): this one lives as
// long as the process.
//
// To go to the command's directory can take long as well, on a network file system
// for ever, and there is nothing to be killed yet: where the guard has left that
// stage, nothing is forked any more.
func forkOn(dir string, command program, blocked uint32, stage *stage, forks <-chan *syscall.ProcAttr, result chan<- forked) {
	runtime.LockOSThread()
	unblockStops(blocked)
	for attr := range forks {
		pid, err := inDir(dir, func() (int, error) {
			if !stage.leave() {
				return 0, errLate
			}
			return command.fork(attr)
		})
		result <- forked{pid, err}
	}
}

// getReadyToFork makes sure that the process goes on while one of its threads
// waits for the kernel to execute a program. Go's fork keeps the processor that
// its thread has (syscall.forkAndExecInChild blocks in vfork(2)): there has to be
// another, whatever GOMAXPROCS says in the environment, which is the command's;
// and nothing may want all threads to stop, as a garbage collection does. It is
// called ahead of time, because both stop all threads for a moment.
func getReadyToFork() {
	if runtime.GOMAXPROCS(0) != 2 { // more would only be woken for nothing
		runtime.GOMAXPROCS(2)
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(math.MaxInt64) // GOMEMLIMIT is the command's, too
}

// usualGarbage is the runtime's default: collect when the heap has doubled.
const usualGarbage = 100

// doneForking allows garbage to be collected: a command can run for months.
func doneForking() { debug.SetGCPercent(usualGarbage) }

// noteForked goes on when the command's number is known.
func (h *helper) noteForked(f forked) {
	if !h.forking {
		return // the guard did not wait for it
	}
	h.forking = false
	switch {
	case errors.Is(f.err, errLate): // which is told as the end of one that was killed
		h.tell(supervisor.GuardEvent{Kind: supervisor.Started})
		h.tell(supervisor.GuardEvent{Kind: supervisor.Exited, Status: syscall.WaitStatus(unix.SIGKILL)})
		h.finish()
	case f.err != nil && h.cgroup != nil && !h.killing:
		// Some groups cannot be forked into (clone(2), CLONE_INTO_CGROUP), and
		// /proc leads to the tree as well.
		h.cgroup.remove()
		h.cgroup = nil
		clear(h.early)
		h.fork()
	case f.err != nil:
		h.fail(f.err)
	default:
		h.first = f.pid
		h.terminal.offer(f.pid)
		h.tell(supervisor.GuardEvent{Kind: supervisor.Started, Pid: f.pid})
		doneForking()
		h.watchBond()
		if h.killing {
			h.kill() // it has not run for longer than that takes
		}
		h.reap()
	}
}

// fail tells that the command was not started, and why.
func (h *helper) fail(err error) {
	errno := syscall.EIO
	errors.As(err, &errno)
	h.tell(supervisor.GuardEvent{Kind: supervisor.NotStarted, Errno: errno})
	h.finish()
}
