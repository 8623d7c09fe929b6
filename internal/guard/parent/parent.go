// Package parent is what the supervisor's process and the guard's have in common: each is the parent of processes that
// it reaps ([Reap]), must outlive ([BecomeSubreaper]), and has to be able to act on whatever they do to the host
// ([ReserveThreads], [WithStopsBlocked]).
//
// It knows the kernel's rules for parents and Go's for threads. It must not know whose parent a process is.
package parent

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process the parent of whatever loses its own below it
// (PR_SET_CHILD_SUBREAPER(2const)). So it has children as long as it has
// descendants.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become a subreaper, which needs Linux 3.4: %w", err)
	}
	return nil
}

// KeepToItself has the kernel let no process of the same user look into this one, which has passwords: its memory,
// environment and open files are root's alone, it is not traced, and leaves no core (PR_SET_DUMPABLE(2const)). What it
// executes is as any other process again.
func KeepToItself() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) } // fails for no value that exists

// HasChildren reports whether this process has a child, dead ones that are not
// reaped included: the kernel knows that for certain.
func HasChildren() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return !errors.Is(err, unix.ECHILD)
}

// maxStops bounds how many stops of children are taken in one go. One that stops
// and is continued for ever would otherwise keep its parent from everything else.
const maxStops = 16

// Reap takes the ends and stops of all children that have any, and returns whether
// children are left. If there is more to be taken, it sends to again, which has room
// for one and is where this process is notified of SIGCHLD. It must be the only place
// of its process that waits: two that do lose each other's results.
func Reap(again chan os.Signal, each func(pid int, status syscall.WaitStatus)) (left bool) {
	for stops := 0; stops < maxStops; {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ECHILD
			return false
		case pid == 0:
			return true
		}
		if status.Stopped() {
			stops++
		}
		each(pid, status)
	}
	select {
	case again <- syscall.SIGCHLD:
	default: // it has been notified
	}
	return true
}
