package loop

import (
	"fmt"
	"os"
)

// beside is how the command's guard sees whether anything runs beside the command, for as long as it lives, and so
// longer than this process: a pipe that is at its end while nothing does. The zero value: nothing ever will.
type beside struct {
	end *os.File // for reading
}

func newBeside() (beside, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return beside{}, fmt.Errorf("cannot make a pipe for health checks: %w", err)
	}
	w.Close()
	return beside{r}, nil
}

// begin returns what whatever begins to run is to keep open, and this process until that is dead. Between two of them
// nobody has it: a process that is stopped could not close it (proc_pid_fd(5) says how a pipe is opened again).
func (b beside) begin() (*os.File, error) {
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", b.end.Fd()), os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the pipe for health checks: %w", err)
	}
	return file, nil
}

func (b beside) close() {
	if b.end != nil {
		b.end.Close()
	}
}
