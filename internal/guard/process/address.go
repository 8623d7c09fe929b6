package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
)

// AddressName is the argv[0] of a process that is about to become the command. Some
// variables say by a process number whom they are for (LISTEN_PID in
// sd_listen_fds(3), WATCHDOG_PID in sd_watchdog_enabled(3)), and a process has its
// number only once it is there. It keeps the number when it executes the command.
const AddressName = "berth-address"

// Address is that process: it sets the variables that its arguments name and
// executes the command. If it cannot, it says why on the descriptor that they name
// as well, and returns its exit status.
func Address(args []string) int {
	if len(args) < 5 {
		fmt.Fprintf(os.Stderr, "%s: arguments are missing; it is a part of berth and not to be started by hand\n",
			AddressName)
		return 64
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil {
		return 64
	}
	unix.CloseOnExec(fd)
	err = syscall.Exec(args[3], args[4:], addressed(os.Environ(), strings.Split(args[2], ","), os.Getpid()))
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
		env = append(env, name+"="+strconv.Itoa(pid))
	}
	return env
}

// forkCommand forks the command, or what becomes it, and returns once it executes, or
// cannot.
func forkCommand(command wire.Args, attr *syscall.ProcAttr) (pid int, err error) {
	if len(command.Numbered) == 0 {
		return syscall.ForkExec(command.Path, command.Command, attr)
	}
	said, failure, err := os.Pipe() // its end says that the command executes
	if err != nil {
		return 0, err
	}
	defer said.Close()
	_, _ = unix.FcntlInt(failure.Fd(), unix.F_SETFD, 0) // nothing else is forked here
	args := []string{AddressName, strconv.Itoa(int(failure.Fd())), strings.Join(command.Numbered, ","), command.Path}
	pid, err = syscall.ForkExec("/proc/self/exe", append(args, command.Command...), attr)
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
