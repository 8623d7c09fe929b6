// Package process is the guard's process: the parent of the command, which kills the command's whole tree when told,
// when its deadline passes, or when the supervisor is gone. [Main] is all of it. [Stage] is the step between the guard
// and a command that needs what a process can do for itself alone.
//
//	status, will := process.Main(os.Args)
//	if will != nil {
//		will.Execute(executeWill)
//	}
//	os.Exit(status)
//
// It runs with next to nothing initialised, see package [berth/internal/guard/entry]: it knows no lock, no
// configuration and no supervisor but the messages of package [wire], and is handed what executes a [Will].
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/parent"
	"berth/internal/guard/procfs"
	"berth/internal/guard/terminal"
	"berth/internal/guard/tree"
	"berth/internal/guard/wire"
)

// Errors that nobody has to be told of.
var (
	errToldAlready = errors.New("the supervisor knows, and says so")
	errGone        = errors.New("the supervisor has ended, and has told the guard nothing")
)

// Main is the guard's process. It is executed by guard.Host, never by users. It returns
// the process's exit status once the command's tree is dead. Sooner, and beside a will,
// it returns when the supervisor is gone, or too late: the tree is being killed then.
func Main(args []string) (status int, will *Will) {
	const usage = 64
	// Not on this goroutine: while packages are initialised, it has a thread to
	// itself, and every switch from and to it would be one between threads.
	failed, wills, dead := make(chan error, 1), make(chan []byte, 1), make(chan struct{})
	go func() {
		defer close(dead)
		defer close(wills)
		g, err := newGuard(args)
		if err != nil {
			failed <- err
			return
		}
		g.wills = wills
		g.run()
	}()
	if text, left := <-wills; left {
		return 0, &Will{text: text, dead: dead}
	}
	<-dead
	select {
	case err := <-failed:
		if !errors.Is(err, errToldAlready) && !errors.Is(err, errGone) {
			fmt.Fprintf(os.Stderr, "%s: %v; it is a part of berth and not to be started by hand\n", wire.Name, err)
		}
		return usage, nil
	default:
		return 0, nil
	}
}

// newGuard prepares whatever can be prepared before it is told what it is for, and before a slot is won.
func newGuard(arguments []string) (*guard, error) {
	conn, err := wire.OpenOfArgs(arguments)
	if err != nil {
		return nil, err
	}
	dropSignals()
	if err := parent.BecomeSubreaper(); err != nil {
		return nil, err
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	parent.ReserveThreads()
	command, err := conn.ReceiveCommand()
	if errors.Is(err, io.EOF) {
		return nil, errGone
	} else if err != nil {
		return nil, err
	}
	if command.Dir != "" {
		_ = unix.Chdir("/") // as berth has: see guard.LeaveDir
	}
	s := &supervisor{conn: conn}
	if command.Namespace {
		if err := mountProc(s); err != nil {
			return nil, err
		}
	}
	env := procfs.Kernel()
	g := &guard{
		command: command, supervisor: s, terminal: newTerminal(env, command), forker: newForker(command), timer: timer,
		tree:        &tree.Tree{Env: env, Namespace: command.Namespace, Cgroup: tree.MakeCgroup(command.Cgroup)},
		children:    make(chan os.Signal, 1),
		reapedEarly: make(map[int]syscall.WaitStatus),
	}
	g.countNames(env)
	tree.RemoveLeft(command.Cgroup)
	g.tree.Overdue = func() bool { return g.deadline.Passed() }
	return g, nil
}

// newTerminal returns the terminal that the command can be given.
func newTerminal(env *procfs.Env, command wire.Command) *terminal.Terminal {
	if command.Aside {
		return &terminal.Terminal{}
	}
	return terminal.New(env, groupOfParent())
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

// mountProc makes /proc show the processes of this PID namespace alone. Mounts on the host still appear in here, and go
// away again when they are unmounted there, so that berth keeps no file system busy; nothing goes the other way
// (MS_SLAVE, mount_namespaces(7)).
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
	return nil
}
