package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProcessIsReadWhateverItsName(t *testing.T) {
	for _, name := range []string{"plain", "a) R 1 (", "with space", "new\nline", "))) Z 7 7", "(", "ünïcödé"} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), name)
			sleep, err := filepath.EvalSymlinks("/bin/sleep")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(sleep, program); err != nil {
				t.Fatal(err)
			}
			// The kernel takes the name from the path that was executed.
			process, err := os.StartProcess(program, []string{"sleep", "1000"}, &os.ProcAttr{
				Sys: &syscall.SysProcAttr{Setpgid: true},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = process.Kill()
				_, _ = process.Wait()
			}()
			p, there := readProcess(process.Pid)
			if !there || p.pid != process.Pid || p.parent != os.Getpid() || p.group != process.Pid || p.start == 0 {
				t.Errorf("%q reads as %+v, %v", name, p, there)
			}
			if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", process.Pid)); string(comm) != name+"\n" {
				t.Errorf("the process is called %q, not %q: this test tests nothing", comm, name)
			}
		})
	}
}

func TestProcessThatIsNotThereIsNotRead(t *testing.T) {
	if p, there := readProcess(1 << 30); there {
		t.Errorf("it reads as %+v", p)
	}
}

func TestTreeIsWhatIsBelowItsRoot(t *testing.T) {
	table := processes{}
	for _, p := range []process{
		{pid: 1, parent: 0}, {pid: 10, parent: 1}, {pid: 11, parent: 10}, {pid: 12, parent: 11},
		{pid: 13, parent: 10, start: 5}, {pid: 14, parent: 13}, {pid: 20, parent: 1}, {pid: 21, parent: 20},
	} {
		table[p.pid] = p
	}
	for _, c := range []struct {
		name  string
		spare map[int]uint64
		want  []int
	}{
		{"all of it", nil, []int{11, 12, 13, 14}},
		{"a spared child, and what is below it, is not in it", map[int]uint64{13: 5}, []int{11, 12}},
		{"a spared number that was used again is in it", map[int]uint64{13: 4}, []int{11, 12, 13, 14}},
		{"only children are spared", map[int]uint64{14: 0, 12: 0}, []int{11, 12, 13, 14}},
	} {
		found := map[int]bool{}
		for _, p := range table.below(10, c.spare) {
			found[p.pid] = true
		}
		same := len(found) == len(c.want)
		for _, pid := range c.want {
			same = same && found[pid]
		}
		if !same {
			t.Errorf("%s: found %v, want %v", c.name, found, c.want)
		}
	}
}

func TestSignalIsNotSentToAProcessThatGotTheNumberLater(t *testing.T) {
	process, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := readProcess(process.Pid)
	other := p
	other.start--
	signalProcess(other, unix.SIGKILL)
	signalProcess(p, unix.SIGTERM)
	state, err := process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGTERM {
		t.Errorf("it ended as %s", state)
	}
}

func withoutPidfd(t *testing.T, err error) {
	t.Helper()
	openProcess = func(int, int) (int, error) { return -1, err }
	t.Cleanup(func() { openProcess = unix.PidfdOpen })
}

func TestProcessIsSignalledAlsoWithoutADescriptorToBeHad(t *testing.T) {
	process, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Kill() }()
	p, _ := readProcess(process.Pid)
	withoutPidfd(t, unix.ENOMEM)
	signalProcess(p, unix.SIGTERM)
	await(t, "its end", func() bool {
		now, _ := readProcess(process.Pid)
		return now.dead()
	})
	_, _ = process.Wait()
}

func TestKernelWithoutPidfdIsRefused(t *testing.T) {
	withoutPidfd(t, unix.ENOSYS)
	if host, err := NewHost(); err == nil {
		host.Close()
		t.Error("NewHost succeeded")
	}
}

// sleeper is a child of this process that no guard knows, until the test ends.
func sleeper(t *testing.T) *os.Process {
	t.Helper()
	process, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Kill()
		_, _ = process.Wait()
	})
	return process
}
