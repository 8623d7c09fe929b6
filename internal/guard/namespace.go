package guard

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
)

// ErrNamespace says that a guard with Spec.Namespace cannot be started here.
var ErrNamespace = errors.New("--pid-namespace needs CAP_SYS_ADMIN; start berth as root, or give its container " +
	"that capability, or leave the flag out: " +
	"then what the command has started can outlive it if berth and its guard are both killed")

// unusable is ErrNamespace where a capability would not help.
type unusable string

const (
	errForbidden unusable = "a security profile (AppArmor, SELinux) forbids it; allow mounting in that of the " +
		"container or service, or leave --pid-namespace out"
	errNoMount unusable = "nothing can be mounted here, as in a chroot whose root is not a mount point; leave " +
		"--pid-namespace out"
)

func (u unusable) Error() string        { return string(u) }
func (u unusable) Is(target error) bool { return target == ErrNamespace }

// A guard in a namespace of its own is PID 1 there: when it ends, however it
// ends, the kernel kills everything in it and lets nobody wait for the guard
// before that is done (pid_namespaces(7)).
const namespaceFlags = unix.CLONE_NEWPID | unix.CLONE_NEWNS

// notMounted says why /proc could not be mounted.
func notMounted(errno syscall.Errno) error {
	var why error = errNoMount
	switch errno { // see mount(2)
	case unix.EPERM:
		why = ErrNamespace
	case unix.EACCES:
		why = errForbidden
	}
	return fmt.Errorf("cannot mount /proc in a PID namespace: %w: %w", errno, why)
}

// outside returns the number that a child of parent, which has the number
// inside in its own PID namespace, has in this one, 0 if it is gone. The kernel's list
// can leave out a child while a sibling ends, so that it looks twice.
func outside(env *procfs.Env, parent, inside int) int {
	for range 2 {
		for _, pid := range env.Children(parent) {
			if procfs.InnermostPid(pid) == inside {
				return pid
			}
		}
	}
	return 0
}
