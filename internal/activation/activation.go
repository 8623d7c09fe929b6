// Package activation is about sockets that systemd, or a program that follows
// its protocol, has opened for the command (sd_listen_fds(3)): berth has them while the
// command does not run.
//
//	sockets := activation.Inherited()
//	sockets.TurnAway()   // while somebody else holds the lock
//	sockets.Leave()      // the command may start
//
// It never reads from a connection, and leaves the sockets as it found them.
package activation

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// PidVar says for which process the sockets are.
const PidVar = "LISTEN_PID"

// first is the descriptor of the first socket (SD_LISTEN_FDS_START).
const first = 3

// Sockets are those of them that clients can connect to. The zero value has none,
// and does nothing.
type Sockets struct {
	fds     []int
	refusal *refusal // nil: clients wait until the command accepts them
}

// Inherited returns the sockets that this process was given.
func Inherited() *Sockets {
	s := &Sockets{}
	if os.Getenv(PidVar) != strconv.Itoa(os.Getpid()) {
		return s
	}
	count, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	for fd := first; fd < first+count; fd++ {
		listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil {
			continue // a pipe, or a file
		}
		if listening == 1 {
			s.fds = append(s.fds, fd)
		}
	}
	return s
}

// TurnAway closes every connection as soon as it is made, until Leave: a client
// sees at once that it has to go to another host. Otherwise it would wait for as
// long as this one stands by.
func (s *Sockets) TurnAway() {
	if len(s.fds) > 0 && s.refusal == nil {
		s.refusal = refuse(s.fds)
	}
}

// Leave has clients wait for the command again. What connects after it is the
// command's.
func (s *Sockets) Leave() {
	if s.refusal != nil {
		s.refusal.end()
		s.refusal = nil
	}
}

// refusal accepts and closes, in a goroutine of its own.
type refusal struct {
	fds    []int
	flags  []int         // of the sockets, as they were
	polled []unix.PollFd // the sockets, and stop
	stop   int           // an eventfd
	done   chan struct{}
}

// refuse returns nil where that cannot be done.
func refuse(fds []int) *refusal {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil
	}
	r := &refusal{stop: stop, done: make(chan struct{})}
	for _, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			continue
		}
		// A connection can be gone before it is accepted (accept(2)). The flag is
		// the socket's, not the descriptor's, so it is taken back.
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_NONBLOCK)
		r.fds, r.flags = append(r.fds, fd), append(r.flags, flags)
		r.polled = append(r.polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	r.polled = append(r.polled, unix.PollFd{Fd: int32(stop), Events: unix.POLLIN})
	go r.run()
	return r
}

func (r *refusal) run() {
	defer close(r.done)
	for {
		if _, err := unix.Poll(r.polled, -1); err != nil && err != unix.EINTR {
			return
		}
		last := len(r.polled) - 1
		if r.polled[last].Revents != 0 {
			return
		}
		for i := range r.polled[:last] {
			if !r.serve(&r.polled[i]) {
				r.polled[i].Fd = -1 // which poll(2) passes over
			}
		}
	}
}

// serve turns the clients away that wait at a socket. It returns false if the
// socket can be of no use any more.
func (r *refusal) serve(p *unix.PollFd) bool {
	if p.Revents&unix.POLLNVAL != 0 {
		return false
	}
	if p.Revents&unix.POLLIN == 0 {
		return p.Revents == 0 // POLLERR, POLLHUP: somebody has shut it down
	}
	client, _, err := unix.Accept4(int(p.Fd), unix.SOCK_CLOEXEC)
	switch err {
	case nil:
		unix.Close(client)
		return true
	case unix.EAGAIN, unix.EINTR, unix.ECONNABORTED:
		return true
	}
	return false
}

// end returns when no client is turned away any more.
func (r *refusal) end() {
	_, _ = unix.Write(r.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-r.done
	unix.Close(r.stop)
	for i, fd := range r.fds {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, r.flags[i])
	}
}
