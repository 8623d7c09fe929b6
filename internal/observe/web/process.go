package web

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/observe/feed"
)

const (
	// maxMemory has the garbage collector work harder instead of taking more.
	maxMemory = 64 << 20

	// nobody is the user that owns nothing, and its group.
	nobody = 65534
)

// Main is the process that feed.Feed.Serve starts: it serves on the socket that it inherits what it reads from its
// standard input, until that ends. It returns the exit status.
func Main() int {
	// Somebody who ends berth with all processes of its service is to see it end.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	debug.SetMemoryLimit(maxMemory)
	if err := serveInherited(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", feed.Name, err)
		return 1
	}
	return 0
}

func serveInherited() error {
	socket := os.NewFile(feed.Listener, "socket")
	listener, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("is started by 'berth run --listen', not by hand: %w", err)
	}
	socket.Close()
	closeInherited()
	leaveRoot()
	return Serve(listener, os.Stdin, os.NewFile(feed.Asks, "asks"))
}

// closeInherited closes what this process has only because guards have to inherit it, for the command: sockets of
// systemd, for one. What Go opens is not inherited (O_CLOEXEC).
func closeInherited() {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range open {
		fd, _ := strconv.Atoi(entry.Name())
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if fd > feed.Asks && err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// leaveRoot has this process, which answers all who ask, be nobody if it is root's. What it needs is open by now. In
// a container whose root may not change its user it stays what it is, and tells so.
func leaveRoot() {
	if os.Geteuid() != 0 {
		return
	}
	err := syscall.Setgroups([]int{}) // of all threads, as the others
	if err == nil {
		err = syscall.Setresgid(nobody, nobody, nobody)
	}
	if err == nil {
		err = syscall.Setresuid(nobody, nobody, nobody)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: stays root, because it may not become another user: %v\n", feed.Name, err)
	}
}
