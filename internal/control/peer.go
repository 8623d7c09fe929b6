package control

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer returns the process at the other end and its user, as the kernel has noted them: the client, or the
// server. The process is 0 if it has no number here, and the user -1.
func peer(conn *net.UnixConn) (pid, uid int, err error) {
	var cred *unix.Ucred
	err = withFD(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	pid, uid = int(cred.Pid), int(cred.Uid)
	if uid == nobody && !isNobody(pid) {
		uid = -1
	}
	return pid, uid, nil
}

// nobody is a user's number, and what the kernel shows of all who have none here (user_namespaces(7), "Unmapped user
// and group IDs").
const nobody = 65534

// isNobody reports whether a process that seems to be nobody's is: every user has a number here, or it is in our user
// namespace.
func isNobody(pid int) bool {
	numbers, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && slices.Equal(strings.Fields(string(numbers)), []string{"0", "0", "4294967295"}) {
		return true
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return false
	}
	its, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() == nobody {
		// It is a berth, which keeps to itself what it knows. A process of nobody, and nothing more, may
		// signal those of that very user alone.
		return unix.Kill(pid, 0) == nil
	}
	return err == nil && its == own
}

// gone reports whether the other end was closed. A request that was read after that is not meant any more: the
// client has given up, long ago if this process was stopped.
func gone(conn *net.UnixConn) bool {
	fds := make([]unix.PollFd, 1)
	err := withFD(conn, func(fd int) error {
		fds[0].Fd = int32(fd)
		_, err := unix.Poll(fds, 0)
		return err
	})
	return err != nil || fds[0].Revents&unix.POLLHUP != 0
}

func withFD(conn syscall.Conn, do func(fd int) error) error {
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
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return number(uid)
}

func number(uid int) string {
	if uid < 0 {
		return "without a number in this user namespace"
	}
	return strconv.Itoa(uid)
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
