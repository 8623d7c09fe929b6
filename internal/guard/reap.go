package guard

import (
	"errors"
	"os"
	"syscall"
)

// mostStops bounds how many stops of children are taken in one go. One that stops
// and is continued for ever would otherwise keep its parent from everything else.
const mostStops = 16

// reapAll takes the state changes of all children that have any, and returns
// whether children are left, and whether there is more to be taken. It is the only
// place of its process that waits: two that do lose each other's results.
//
// A guard has children as long as it has descendants: it is a child subreaper,
// so whoever loses its parent becomes its child (PR_SET_CHILD_SUBREAPER(2const)).
func reapAll(options int, each func(pid int, status syscall.WaitStatus)) (left, more bool) {
	for stops := 0; stops < mostStops; {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ECHILD
			return false, false
		case pid == 0:
			return true, false
		}
		if status.Stopped() {
			stops++
		}
		each(pid, status)
	}
	return true, true
}

// reapSoon has who waits for SIGCHLD look again.
func reapSoon(children chan os.Signal) {
	select {
	case children <- syscall.SIGCHLD:
	default: // somebody has said so
	}
}
