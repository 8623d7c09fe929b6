package guard

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/supervisor"
)

// ErrNamespace says that a guard with Spec.Namespace cannot be started here.
var ErrNamespace = errors.New("--pid-namespace needs CAP_SYS_ADMIN; start berth as root, or give its container that capability, or leave the flag out: " +
	"then what the command has started can outlive it if berth and its guard are killed in the same instant")

// unusable is ErrNamespace where a capability would not help.
type unusable string

const (
	errForbidden unusable = "a security profile (AppArmor, SELinux) forbids it; allow mounting in that of the container or service, or leave --pid-namespace out"
	errNoMount   unusable = "nothing can be mounted here, as in a chroot whose root is not a mount point; leave --pid-namespace out"
)

func (u unusable) Error() string        { return string(u) }
func (u unusable) Is(target error) bool { return target == ErrNamespace }

// errUnsettled says that the supervisor knows already what failed.
var errUnsettled = errors.New("cannot settle in the namespace")

// A guard in a namespace of its own is PID 1 there: when it ends, however it
// ends, the kernel kills everything in it and lets nobody wait for the guard
// before that is done (pid_namespaces(7)).
const namespaceFlags = unix.CLONE_NEWPID | unix.CLONE_NEWNS

// What such a guard says first, before anything can be asked of it.
const (
	settled   supervisor.GuardEventKind = "settled"
	unsettled supervisor.GuardEventKind = "unsettled" // Errno says why
)

// The forms of Spec.Namespace in the guard's arguments.
const (
	ownNamespace    = "own"
	sharedNamespace = "-"
)

// settleTimeout bounds how long a guard may take until it has settled, which is
// milliseconds. No command runs meanwhile.
const settleTimeout = 10 * time.Second

// settle makes /proc show the processes of this namespace alone. Mounts on the
// host still appear in here, and go away again when they are unmounted there,
// so that berth keeps no file system busy; nothing goes the other way (MS_SLAVE,
// mount_namespaces(7)).
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// settleIn settles and says so to the supervisor.
func settleIn(conn *connectionTo) error {
	if os.Getpid() != 1 {
		return errors.New("it is not the first process of a namespace")
	}
	if err := settle(); err != nil {
		errno, _ := err.(syscall.Errno)
		conn.tell(supervisor.GuardEvent{Kind: unsettled, Errno: errno}, tellTimeout)
		return errUnsettled
	}
	conn.tell(supervisor.GuardEvent{Kind: settled}, tellTimeout)
	return nil
}

// awaitSettled waits for what such a guard says first.
func awaitSettled(in *inbox) error {
	var event supervisor.GuardEvent
	if err := in.conn.SetReadDeadline(time.Now().Add(settleTimeout)); err != nil {
		return fmt.Errorf("cannot start the guard: %w", err)
	}
	_, err := in.receive(&event)
	switch {
	case err != nil:
		return fmt.Errorf("cannot start the guard: it does not say that it is ready: %w", err)
	case event.Kind != settled:
		return notSettled(event.Errno)
	}
	return in.conn.SetReadDeadline(time.Time{})
}

// notSettled says why /proc could not be mounted.
func notSettled(errno syscall.Errno) error {
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
// inside in its own PID namespace, has in this one, 0 if it is gone.
func outside(parent, inside int) int {
	table, err := processTable()
	if err != nil {
		return 0
	}
	for _, p := range table {
		if p.parent == parent && innermost(p.pid) == inside {
			return p.pid
		}
	}
	return 0
}

// innermost returns a process's number in its own PID namespace.
func innermost(pid int) (number int) {
	eachLine("/proc/"+strconv.Itoa(pid)+"/status", func(line string) {
		if numbers, found := strings.CutPrefix(line, "NSpid:"); found {
			all := strings.Fields(numbers)
			number, _ = strconv.Atoi(slices.Concat([]string{"0"}, all)[len(all)])
		}
	})
	return number
}
