package guardtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// The ways in which who traces a process keeps it when it gets KILL (ptrace(2)).
const (
	KeptDead  = 0                       // it has ended, and is not reaped
	KeptAlive = unix.PTRACE_O_TRACEEXIT // it stops on its way to the end, like one that waits in the kernel
)

// Tracer is a process that traces another one, and does nothing more for it. NewTracer
// makes it.
type Tracer struct {
	t     *testing.T
	to    io.WriteCloser
	says  *bufio.Reader
	ended func() error
}

// NewTracer starts it, before the Host that may kill what is below this process.
func NewTracer(t *testing.T) *Tracer {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tracer := exec.Command(binary)
	tracer.Env = append(os.Environ(), RoleVar+"=tracer", "GORACE=atexit_sleep_ms=0")
	tracer.Stderr = os.Stderr
	to, err := tracer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	says, err := tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	tr := &Tracer{t: t, to: to, says: bufio.NewReader(says), ended: tracer.Wait}
	t.Cleanup(tr.End)
	return tr
}

// Keep has it trace every thread of a process.
func (tr *Tracer) Keep(pid int, way int) {
	tr.t.Helper()
	fmt.Fprintln(tr.to, pid, way)
	if _, err := tr.says.ReadString('\n'); err != nil {
		tr.t.Fatalf("process %d is not traced: %v", pid, err)
	}
}

// End ends it.
func (tr *Tracer) End() {
	_ = tr.to.Close()
	_ = tr.ended() // or a Host of this process has reaped it
}

// trace is such a process.
func trace() {
	var pid, options int
	if _, err := fmt.Scanln(&pid, &options); err != nil {
		os.Exit(0) // it is not needed
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, entry := range threads {
		tid, _ := strconv.Atoi(entry.Name())
		if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, uintptr(options), 0,
			0); errno != 0 {
			fmt.Fprintln(os.Stderr, "cannot trace:", errno)
			return
		}
	}
	fmt.Println()
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}
