package hearing

import (
	"net"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Peer returns the process at the other end and its user, as the kernel has noted them: of who connected, or of who
// began to listen. The process is 0 if it has no number here.
func Peer(conn *net.UnixConn) (pid, uid int, err error) {
	var cred *unix.Ucred
	err = control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Pid), int(cred.Uid), nil
}

// gone reports whether the other end was closed. A request that was read after that is not meant any more: who
// asked has given up, long ago if this process was stopped.
func gone(conn *net.UnixConn) bool {
	fds := make([]unix.PollFd, 1)
	err := control(conn, func(fd int) error {
		fds[0].Fd = int32(fd)
		_, err := unix.Poll(fds, 0)
		return err
	})
	return err != nil || fds[0].Revents&unix.POLLHUP != 0
}

func control(conn syscall.Conn, do func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// UserName returns the name of a user, or the number if it has none.
func UserName(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}
