package checks

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// beside is how the command's guard sees whether anything runs beside the command, for as long as it lives, and so
// longer than this process: a file that has a shared lock (flock(2)) while something does. The guard locks it for
// itself alone before it says in this process's place that nothing runs, so that nothing begins after that. Each start
// of the command has its own. The zero value: nothing ever will.
type beside struct {
	file *os.File // of which nobody reads: a pipe, which needs no place in a file system
	err  error    // why there is none
}

func newBeside() beside {
	r, w, err := os.Pipe()
	if err != nil {
		return beside{err: fmt.Errorf("cannot make a file for health checks: %w", err)}
	}
	w.Close()
	return beside{file: r}
}

// begin returns what whatever begins to run is to keep open, and this process until that is dead. Locks are of a file
// that was opened, and this opens it again (proc_pid_fd(5)).
func (b beside) begin() (*os.File, error) {
	if b.err != nil {
		return nil, b.err
	}
	mark, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", b.file.Fd()), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the file for health checks: %w", err)
	}
	if err := unix.Flock(int(mark.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		mark.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.New("the command's guard is at its end") // which it tells in a moment
		}
		return nil, fmt.Errorf("cannot lock the file for health checks: %w", err)
	}
	return mark, nil
}

func (b beside) close() {
	if b.file != nil {
		b.file.Close()
	}
}
