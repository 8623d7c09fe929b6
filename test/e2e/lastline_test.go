package e2e

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A collector that hangs, with a full pipe, must not keep berth.
func TestLastLineThatNobodyReadsKeepsNobody(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	fill(t, write)
	cmd := exec.Command(binary, "run", "--broker", localURL(t), "--mutex", "m", "--", "/nonexistent")
	cmd.Env, cmd.Stderr = ownEnvironment(), write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	until(t, "the end of berth", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}, func() string { _ = cmd.Process.Kill(); return "berth still waits for a reader" })
	if got := cmd.ProcessState.ExitCode(); got != 127 {
		t.Errorf("status %d, want 127", got)
	}
}

// fill writes until the pipe takes nothing more. The descriptor that berth gets
// waits, as usual.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	fd := int(pipe.Fd()) // makes it wait
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for {
		if _, err := unix.Write(fd, block); err != nil {
			break
		}
	}
	for {
		if _, err := unix.Write(fd, block[:1]); err != nil {
			break
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

func TestEveryLineOfAJSONLogIsAnObject(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary, "run", "--broker", localURL(t), "--mutex", "m", "--log-format", "json", "--",
		"/nonexistent")
	cmd.Env = ownEnvironment()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range all {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("%q is no object", line)
		}
	}
	if last := all[len(all)-1]; !strings.Contains(last, "/nonexistent") || cmd.ProcessState.ExitCode() != 127 {
		t.Errorf("status %d, last line %s", cmd.ProcessState.ExitCode(), last)
	}
}
