package process_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/test/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDescendantsAreFound(t *testing.T) {
	p, err := process.Start(exec.Command("sh", "-c", "sh -c 'sleep 60; :' & wait"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.End(0)
	var sleeper int
	for end := time.Now().Add(20 * time.Second); sleeper == 0 &&
		time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, pid := range process.Descendants(p.PID()) {
			if strings.HasSuffix(process.Executable(pid), "/sleep") {
				sleeper = pid
			}
		}
	}
	if sleeper == 0 {
		t.Fatal("the process two levels below was not found")
	}
	for _, pid := range process.Descendants(p.PID()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.End(20 * time.Second)
	if !p.State().Exited() {
		t.Errorf("it did not end by itself after its children: %s", p.State())
	}
}

func TestEndKillsWhatIgnoresTheGrace(t *testing.T) {
	p, err := process.Start(exec.Command("sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	p.End(time.Millisecond)
	if p.State().Success() {
		t.Error("it was not killed")
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to what has ended: %v", err)
	}
}

func TestProgramThatIsNotThereIsNamed(t *testing.T) {
	const name = "/nonexistent/program"
	if _, err := process.Start(exec.Command(name)); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("%v", err)
	}
}

func TestProcessesAreFoundByTheirEnvironment(t *testing.T) {
	home := "HOME=" + t.TempDir()
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{home, "PATH=" + os.Getenv("PATH")}
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.End(0)
	if found := process.WithEnvironment(home); len(found) != 1 || !slices.Contains(found[p.PID()], cmd.Env[1]) {
		t.Errorf("found %v, not %d", found, p.PID())
	}
	if found := process.WithEnvironment(home[:len(home)-1]); len(found) > 0 {
		t.Errorf("found %v by the beginning of an entry", found)
	}
}
