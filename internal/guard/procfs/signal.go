package procfs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends the signal to just this process: a process that got the number
// later is not touched (pidfd_open(2)). The error is EPERM if this process may not
// signal it, because it runs as another user, and otherwise says that it has
// ended; a caller that kills a tree looks again.
func (e *Env) Signal(p Process, sig syscall.Signal) error {
	fd, err := e.OpenPidfd(p.Pid, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
	case errors.Is(err, unix.ESRCH):
		return err
	}
	if p.Hidden {
		if err == nil && !isChild(fd) {
			return unix.ESRCH
		}
	} else if now, err := Read(p.Pid); err != nil || now.Start != p.Start || now.Dead() {
		return unix.ESRCH
	}
	if err != nil {
		// Out of memory or descriptors, for example. By its number it is certain enough:
		// numbers come around after thousands of forks.
		return unix.Kill(p.Pid, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// isChild reports whether the process is a child of this one that is not reaped.
func isChild(pidfd int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return !errors.Is(err, unix.ECHILD)
}
