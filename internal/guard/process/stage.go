package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/guard/rights"
	"berth/internal/guard/wire"
)

// StageName is the argv[0] of a process that is about to become the command, where that
// needs what a process can do for itself alone. Some variables say by a process number
// whom they are for (LISTEN_PID in sd_listen_fds(3), WATCHDOG_PID in
// sd_watchdog_enabled(3)), and a process has its number only once it is there. Limits
// would be those of the guard, too. And what has become another user may still have
// capabilities, where berth is not root.
const StageName = "berth-stage"

// stagedArgs are in front of the command's: the name, a descriptor, variables, rights and
// the path.
const stagedArgs = 5

// Stage is that process: it sets the variables that its arguments name, has what rights it
// is to have, and executes the command. If it cannot, it says why on the descriptor that they name as
// well, and returns its exit status.
func Stage(args []string) int {
	if len(args) <= stagedArgs {
		fmt.Fprintf(os.Stderr, "%s: arguments are missing; it is a part of berth and not to be started by hand\n",
			StageName)
		return 64
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil {
		return 64
	}
	own, err := rights.Parse(args[3])
	if err != nil {
		return 64
	}
	unix.CloseOnExec(fd)
	env := addressed(os.Environ(), strings.Split(args[2], ","), os.Getpid())
	runtime.LockOSThread()
	// The kernel took it if this very program's file has capabilities (PR_SET_PDEATHSIG(2const)).
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	if err = own.RestrictForExec(); err == nil {
		err = syscall.Exec(args[4], args[stagedArgs:], env)
	}
	errno := syscall.EIO
	errors.As(err, &errno)
	_, _ = unix.Write(fd, binary.NativeEndian.AppendUint32(nil, uint32(errno)))
	return 127
}

// addressed returns the environment with the variables set to the process number.
func addressed(env, names []string, pid int) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(names, name)
	})
	for _, name := range names {
		if name != "" {
			env = append(env, name+"="+strconv.Itoa(pid))
		}
	}
	return env
}

// forkCommand forks the command, or what becomes it, and returns once it executes, or
// cannot.
func forkCommand(command wire.Command, attr *syscall.ProcAttr) (pid int, err error) {
	if command.Rights.Umask != nil {
		defer unix.Umask(unix.Umask(int(*command.Rights.Umask)))
	}
	if !wire.Staged(command.Numbered, command.Rights) {
		return syscall.ForkExec(command.Path, command.Args, attr)
	}
	said, failure, err := os.Pipe() // its end says that the command executes
	if err != nil {
		return 0, err
	}
	defer said.Close()
	_, _ = unix.FcntlInt(failure.Fd(), unix.F_SETFD, 0) // nothing else is forked here
	args := []string{StageName, strconv.Itoa(int(failure.Fd())), strings.Join(command.Numbered, ","),
		command.Rights.String(), command.Path}
	pid, err = syscall.ForkExec("/proc/self/exe", append(args, command.Args...), attr)
	failure.Close()
	if err != nil {
		return 0, err
	}
	var errno [4]byte
	if n, _ := said.Read(errno[:]); n == len(errno) {
		return 0, syscall.Errno(binary.NativeEndian.Uint32(errno[:]))
	}
	return pid, nil
}
