package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
)

func TestMain(m *testing.M) {
	guardtest.PlayRole(nil)
	goleak.VerifyTestMain(m)
}

// countTables returns an Env that counts how often all of /proc is read.
func countTables() (env *Env, tables *int) {
	env, tables = Kernel(), new(int)
	env.ReadNames = func(dir string) ([]string, error) {
		if dir == "/proc" {
			*tables++
		}
		return readNames(dir)
	}
	return env, tables
}

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
			p, err := Read(process.Pid)
			if err != nil || p.Pid != process.Pid || p.Parent != os.Getpid() || p.Group != process.Pid || p.Start == 0 {
				t.Errorf("%q reads as %+v, %v", name, p, err)
			}
			if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", process.Pid)); string(comm) != name+"\n" {
				t.Errorf("the process is called %q, not %q: this test tests nothing", comm, name)
			}
		})
	}
}

func TestProcessThatIsNotThereIsNotRead(t *testing.T) {
	if p, err := Read(1 << 30); err == nil {
		t.Errorf("it reads as %+v", p)
	}
}

func TestTreeIsWhatIsBelowItsRoot(t *testing.T) {
	table := Table{}
	for _, p := range []Process{
		{Pid: 1, Parent: 0}, {Pid: 10, Parent: 1}, {Pid: 11, Parent: 10}, {Pid: 12, Parent: 11},
		{Pid: 13, Parent: 10, Start: 5}, {Pid: 14, Parent: 13}, {Pid: 20, Parent: 1}, {Pid: 21, Parent: 20},
	} {
		table[p.Pid] = p
	}
	for _, c := range []struct {
		name   string
		except Set
		want   []int
	}{
		{"all of it", nil, []int{11, 12, 13, 14}},
		{"a spared child, and what is below it, is not in it", Set{13: 5}, []int{11, 12}},
		{"a spared number that was used again is in it", Set{13: 4}, []int{11, 12, 13, 14}},
		{"only children are spared", Set{14: 0, 12: 0}, []int{11, 12, 13, 14}},
	} {
		found := map[int]bool{}
		for _, p := range table.Below(10, c.except) {
			found[p.Pid] = true
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
	p, _ := Read(process.Pid)
	other := p
	other.Start--
	Kernel().Signal(other, unix.SIGKILL)
	Kernel().Signal(p, unix.SIGTERM)
	state, err := process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGTERM {
		t.Errorf("it ended as %s", state)
	}
}

func TestProcessIsSignalledAlsoWithoutADescriptorToBeHad(t *testing.T) {
	process, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Kill() }()
	p, _ := Read(process.Pid)
	env := Kernel()
	env.OpenPidfd = func(int, int) (int, error) { return -1, unix.ENOMEM }
	env.Signal(p, unix.SIGTERM)
	guardtest.Await(t, "its end", func() bool {
		now, _ := Read(process.Pid)
		return now.Dead()
	})
	_, _ = process.Wait()
}

func TestWalkFindsTheWholeTreeAndNothingElse(t *testing.T) {
	mark := guardtest.Below(t, guardtest.Wide, guardtest.WideSize)
	env, tables := countTables()
	var found []int
	w := env.Walk(nil, nil, func(p Process) {
		// A session is 0 where its leader is outside of this PID namespace, as in
		// a container.
		group, _ := unix.Getpgid(p.Pid)
		session, _ := unix.Getsid(p.Pid)
		if p.Group != group || p.Session != session || p.Start == 0 {
			t.Errorf("it is said to be %+v, and is in group %d, session %d", p, group, session)
		}
		found = append(found, p.Pid)
	})
	want := guardtest.Marked(mark)
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) || w.Partial {
		t.Errorf("it found %v, partial: %v; want %v", found, w.Partial, want)
	}
	if *tables != 0 {
		t.Error("all of /proc was read")
	}
}

func TestWalkCanBeBrokenOff(t *testing.T) {
	mark := guardtest.Below(t, guardtest.Wide, guardtest.WideSize)
	left := 20 // looks at threads and processes, of some fifty
	found, complete := Kernel().Look(func() bool { left--; return left < 0 })
	if complete || len(found) >= guardtest.WideSize {
		t.Errorf("it went on and found %d of %d, complete: %v", len(found), len(guardtest.Marked(mark)), complete)
	}
}

func TestProcessOfManyThreadsIsVisitedBeforeTheyAreRead(t *testing.T) {
	guardtest.Below(t, guardtest.RoleVar+`="fork among threads" "$GUARD_TEST_SELF" & exec sleep 1000`, 3)
	looks := 0
	var visited []Process
	Kernel().Walk(nil, func() bool { looks++; return false }, func(p Process) {
		visited = append(visited, p)
		if p.Threads > manyThreads && looks > 2*manyThreads {
			t.Errorf("%d threads and processes were read before it", looks)
		}
	})
	if len(visited) != 3 || visited[1].Threads <= manyThreads {
		t.Errorf("the walk finds %+v", visited)
	}
}

func TestStoppedProcessIsToldFromARunningOne(t *testing.T) {
	process := guardtest.Sleeper(t)
	if Kernel().IsStopped(process.Pid) {
		t.Error("a running process counts as stopped")
	}
	_ = process.Signal(unix.SIGSTOP)
	guardtest.Await(t, "it to count as stopped", func() bool { return Kernel().IsStopped(process.Pid) })
	_ = process.Signal(unix.SIGCONT)
	guardtest.Await(t, "it to count as running", func() bool { return !Kernel().IsStopped(process.Pid) })
	if Kernel().IsStopped(1 << 30) {
		t.Error("a process that is not there counts as stopped")
	}
}

// As in vfork(2), where a process takes no signal until the child has executed.
func TestProcessThatIsAboutToStopIsTold(t *testing.T) {
	set := func(sig unix.Signal) uint64 { return 1 << (sig - 1) }
	for name, c := range map[string]struct {
		status status
		want   bool
	}{
		"nothing pending":        {status{state: 'S'}, false},
		"another signal":         {status{pending: set(unix.SIGTERM) | set(unix.SIGCONT)}, false},
		"STOP":                   {status{pending: set(unix.SIGSTOP), blocked: ^uint64(0)}, true},
		"TTIN":                   {status{pending: set(unix.SIGTTIN), caught: set(unix.SIGTSTP)}, true},
		"TSTP, which is blocked": {status{pending: set(unix.SIGTSTP), blocked: set(unix.SIGTSTP)}, false},
		"TSTP, which has a use":  {status{pending: set(unix.SIGTSTP), caught: set(unix.SIGTSTP)}, false},
		"TTOU, which is ignored": {status{pending: set(unix.SIGTTOU), ignored: set(unix.SIGTTOU)}, false},
		"TTOU as well as a TSTP": {status{pending: set(unix.SIGTTOU) | set(unix.SIGTSTP),
			caught: set(unix.SIGTSTP)}, true},
		"a use for what is not up": {status{caught: set(unix.SIGTSTP)}, false},
	} {
		if got := c.status.stopPending(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
