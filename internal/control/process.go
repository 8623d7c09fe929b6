package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
	"berth/lock"
)

// patience is for the answer of a process: a server takes seven seconds at most, unless berth is stopped or hangs.
const patience = 10 * time.Second

// AskProcess asks the berth that is process pid. Errors: lock.ErrAbsent if there is no such berth, lock.ErrDenied, and
// lock.ErrUnknown if it is stopped, or gives no answer in time.
func AskProcess(ctx context.Context, pid int, verb lock.Verb) ([]byte, error) {
	var conn *net.UnixConn
	var err error
	Patiently(ctx, func() (early bool) {
		conn, err = connectTo(ctx, pid)
		return errors.Is(err, lock.ErrAbsent) && exists(pid)
	})
	if err != nil {
		return nil, err
	}
	if procfs.Kernel().IsStopped(pid) {
		_ = conn.Close()
		return nil, lock.Errorf(lock.ErrUnknown, "process %d is stopped, and nothing was asked; continue it with "+
			"'kill -CONT %d', and ask again", pid, pid)
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := ask(bounded, conn, 0, verb)
	switch {
	case errors.Is(err, lock.ErrDenied):
		return nil, fmt.Errorf("process %d: %w", pid, err)
	case err != nil && bounded.Err() != nil && ctx.Err() == nil:
		return nil, lock.Errorf(lock.ErrUnknown, "process %d has not answered within %s, so it may not have acted on this; "+
			"see whether it was stopped or hangs, and ask again", pid, patience)
	case err != nil:
		return nil, lock.Errorf(lock.ErrUnknown, "process %d has not answered, so it may not have acted on this: %w",
			pid, err)
	}
	return answer, nil
}

// connectTo returns a connection to a process, having seen that it is the one.
func connectTo(ctx context.Context, pid int) (*net.UnixConn, error) {
	address, err := addressOf(pid)
	if err != nil {
		return nil, err
	}
	conn, err := whenFree(ctx, func() (*net.UnixConn, error) {
		return dial(ctx, address, func(listener, uid int) error { return check(pid, listener, uid) })
	})
	switch {
	case errors.Is(err, ErrDead) && exists(pid):
		return nil, lock.Errorf(lock.ErrAbsent, "process %d cannot be asked: it is no 'berth run', one of an older "+
			"version, or in another container, where it has to be asked from", pid)
	case errors.Is(err, ErrDead):
		return nil, lock.Errorf(lock.ErrAbsent, "there is no process %d", pid)
	case err != nil && !errors.Is(err, lock.ErrDenied):
		return nil, lock.Errorf(lock.ErrUnknown, "cannot ask process %d: %w", pid, err)
	}
	return conn, err
}

// check says whether a certain process is at the other end. Somebody else may have taken its name; and what has its
// number may have got it after the process that began to listen, which another user's has inherited the socket from.
func check(pid, listener, uid int) error {
	switch {
	case listener != pid:
		return lock.Errorf(lock.ErrDenied, "process %d of the user %s listens in the place of process %d; "+
			"nothing was asked", listener, userName(uid), pid)
	case uid < 0 || !slices.Contains([]int{0, os.Geteuid(), userOf(pid)}, uid):
		return lock.Errorf(lock.ErrDenied, "the user %s listens in the place of process %d; nothing was asked",
			userName(uid), pid)
	}
	return nil
}

// addressOf returns the address of a process that has this number where we are.
func addressOf(pid int) (string, error) {
	namespace, err := os.Readlink("/proc/self/ns/pid") // such as pid:[4026531836]
	if err != nil {
		return "", fmt.Errorf("cannot tell which pid namespace this is: %w", err)
	}
	return "@berth-" + strings.Trim(namespace, "pid:[]") + "-" + strconv.Itoa(pid), nil
}

// exists reports whether there is a process.
func exists(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }

// userOf returns the effective user of a process (proc_pid_status(5)), -1 if that is not to be seen.
func userOf(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "Uid:" {
			if uid, err := strconv.Atoi(fields[2]); err == nil {
				return uid
			}
		}
	}
	return -1
}
