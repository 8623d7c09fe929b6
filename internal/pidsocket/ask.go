package pidsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
	"berth/internal/hearing"
	"berth/lock"
)

// begun are the pauses after each of which a process that does not listen is tried again: one that has just been
// started may be a berth that soon will.
var begun = []time.Duration{hearing.After, 200 * time.Millisecond, 400 * time.Millisecond}

// patience is for an answer: package hearing takes seven seconds at most, unless berth is stopped or hangs.
const patience = 10 * time.Second

// full is the pause after which a process is tried again that others ask faster than it can send them away.
const full = 10 * time.Millisecond

// Ask asks the berth that is process pid. Errors: lock.ErrAbsent if there is no such berth, lock.ErrDenied, and
// lock.ErrUnknown if it is stopped, or gives no answer in time.
func Ask(ctx context.Context, pid int, verb lock.Verb) ([]byte, error) {
	conn, err := connect(ctx, pid)
	for n := 0; errors.Is(err, lock.ErrAbsent) && exists(pid) && n < len(begun); n++ {
		select {
		case <-time.After(begun[n]):
		case <-ctx.Done():
			return nil, err
		}
		conn, err = connect(ctx, pid)
	}
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
	answer, err := hearing.Ask(bounded, conn, 0, verb)
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

// connect returns a connection to a process, having seen that it is the one.
func connect(ctx context.Context, pid int) (*net.UnixConn, error) {
	name, err := nameOf(pid)
	if err != nil {
		return nil, err
	}
	dialed, err := new(net.Dialer).DialContext(ctx, "unix", address(name).Name)
	for errors.Is(err, syscall.EAGAIN) && ctx.Err() == nil { // so many ask, who may not, that more have to wait
		select {
		case <-time.After(full):
		case <-ctx.Done():
		}
		dialed, err = new(net.Dialer).DialContext(ctx, "unix", address(name).Name)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, absent(pid)
	case err != nil:
		return nil, lock.Errorf(lock.ErrUnknown, "cannot ask process %d: %w", pid, err)
	}
	conn := dialed.(*net.UnixConn)
	if err := check(conn, pid); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// check says whether a certain process is at the other end. Somebody else may have taken its name; and what has its
// number may have got it after the process that began to listen, which another user's has inherited the socket from.
func check(conn *net.UnixConn, pid int) error {
	listener, uid, err := hearing.Peer(conn)
	switch {
	case err != nil:
		return lock.Errorf(lock.ErrUnknown, "cannot tell which process listens in the place of process %d: %w", pid, err)
	case listener != pid:
		return lock.Errorf(lock.ErrDenied, "process %d of the user %s listens in the place of process %d; "+
			"nothing was asked", listener, hearing.UserName(uid), pid)
	case uid < 0 || !slices.Contains([]int{0, os.Geteuid(), userOf(pid)}, uid):
		return lock.Errorf(lock.ErrDenied, "the user %s listens in the place of process %d; nothing was asked",
			hearing.UserName(uid), pid)
	}
	return nil
}

// exists reports whether there is a process.
func exists(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }

// absent is the error for a process that does not listen.
func absent(pid int) error {
	if !exists(pid) {
		return lock.Errorf(lock.ErrAbsent, "there is no process %d", pid)
	}
	return lock.Errorf(lock.ErrAbsent, "process %d cannot be asked: it is no 'berth run', one of an older version, or in "+
		"another container, where it has to be asked from", pid)
}

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
