package feed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/rights"
)

// Name is the server's argv[0]: what ps shows, and how main tells which program of this binary it is.
const Name = "berth-listen"

// Descriptors of the server, beside its standard input, over which it is told how berth is.
const (
	// Listener is the socket that it is to serve.
	Listener = 3
	// Asks takes a byte whenever somebody wants to see who holds the lock.
	Asks = 4
)

// Serve listens on the address and starts the server. What the server is told comes over a pipe, whose end it
// outlives by no more than a moment.
//
// It is called before this process has become the parent of guards: children that are there by then are left alone.
func (f *Feed) Serve(address string) (net.Addr, error) {
	listener, err := net.Listen(network(address), address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	defer listener.Close() // the server has a descriptor of its own
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, fmt.Errorf("cannot hand on the socket of %s: %w", address, err)
	}
	defer socket.Close()
	if err := f.start(socket); err != nil {
		return nil, err
	}
	return listener.Addr(), nil
}

// network is the one that an address is of. With "tcp" alone, 0.0.0.0 would be every address of IPv6 too, and [::]
// those of IPv4. Without an address, all are meant.
func network(address string) string {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil: // none, or localhost
		return "tcp"
	case ip.Is4():
		return "tcp4"
	}
	return "tcp6"
}

func (f *Feed) start(socket *os.File) error {
	reads, writes, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", Name, err)
	}
	defer reads.Close()
	asked, asks, err := os.Pipe()
	if err != nil {
		writes.Close()
		return fmt.Errorf("cannot start %s: %w", Name, err)
	}
	defer asks.Close()
	process, err := execute(reads, nil, os.Stderr, socket, asks)
	if err != nil {
		writes.Close()
		asked.Close()
		return fmt.Errorf("cannot start %s: %w", Name, err)
	}
	f.ended = endOf(process.Pid)
	_ = process.Release() // reaped with the guards
	f.to, f.done = writes, make(chan struct{})
	go f.send()
	f.lookWhenAsked(asked)
	return nil
}

// execute starts the server with these files. It has no environment, in which there may be a password, and no
// capability, neither of berth's nor of the program's file. A group of its own keeps the terminal's keys from it.
func execute(files ...*os.File) (process *os.Process, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends without what it gives up
		err = rights.Rights{NoNewPrivileges: true}.Restrict()
		if err == nil && os.Geteuid() != 0 { // root needs its own to become another user
			err = rights.Rights{Confined: true}.RestrictForExec()
		}
		if err != nil {
			return
		}
		// /proc/self/exe is this very binary, even if it was replaced meanwhile.
		process, err = os.StartProcess("/proc/self/exe", []string{Name}, &os.ProcAttr{
			Env: []string{}, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	}()
	<-done
	return process, err
}

// endOf returns what waits for a child's end, for as long at most, and leaves reaping it to others. That is nothing
// where the kernel does not let it.
func endOf(pid int) func(patience time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return func(time.Duration) {}
	}
	return func(patience time.Duration) {
		defer unix.Close(fd)
		for until := time.Now().Add(patience); ; {
			left := max(0, time.Until(until))
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
}
