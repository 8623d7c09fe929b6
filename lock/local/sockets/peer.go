package sockets

import (
	"net"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer returns the user at the other end, as the kernel has noted it: who connected, or who began to listen.
func peer(conn *net.UnixConn) (uid int, err error) {
	var cred *unix.Ucred
	err = control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
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

// userName returns the name of a user, or the number if it has none.
func userName(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// lookUp returns the numbers of users who are given by name or number, and the names that nobody has.
func lookUp(users []string) (uids map[int]bool, unknown []string) {
	uids = make(map[int]bool, len(users))
	for _, name := range users {
		number := name
		if u, err := user.Lookup(name); err == nil {
			number = u.Uid
		}
		if uid, err := strconv.Atoi(number); err == nil && uid >= 0 {
			uids[uid] = true
		} else {
			unknown = append(unknown, name)
		}
	}
	return uids, unknown
}
