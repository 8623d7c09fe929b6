package interrupt

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// WhenUnread returns a context that ends, as by a PIPE, once nobody can read any more what is written to the file: what
// seldom writes would otherwise not notice for a long time. release frees it.
func WhenUnread(parent context.Context, file *os.File) (ctx context.Context, release func(), err error) {
	wakes, wake, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	// Fd has both block from now on, which standard output does anyway.
	waited := []unix.PollFd{{Fd: int32(file.Fd())}, {Fd: int32(wakes.Fd())}}
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if hungUp(waited) {
			cancel(Signalled{syscall.SIGPIPE})
		}
	}()
	return ctx, func() {
		wake.Close()
		<-done
		wakes.Close()
		cancel(nil)
	}, nil
}

// hungUp waits until something has happened to one of two files, and reports whether it is the first. Errors and
// hang-ups are told of without being asked for (poll(2)).
func hungUp(files []unix.PollFd) bool {
	for {
		switch _, err := unix.Poll(files, -1); {
		case errors.Is(err, unix.EINTR):
		case err != nil || files[1].Revents != 0:
			return false
		case files[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		default: // POLLNVAL: it is not open
			return false
		}
	}
}
