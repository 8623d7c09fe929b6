package guard

import (
	"errors"
	"syscall"
)

// reapAll takes the state changes of all children that have any, and returns
// whether children are left. It is the only place of its process that waits:
// two that do lose each other's results.
//
// A guard has children as long as it has descendants: it is a child subreaper,
// so whoever loses its parent becomes its child (PR_SET_CHILD_SUBREAPER(2const)).
func reapAll(options int, each func(pid int, status syscall.WaitStatus)) (left bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ECHILD
			return false
		case pid == 0:
			return true
		}
		each(pid, status)
	}
}
