package guard

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/supervisor"
)

const (
	// markVar marks every process of one test's command. The guard does not
	// have it: it is added to the environment at the start.
	markVar = "GUARD_TEST_MARK"

	// patience is long enough for a busy machine; nothing waits that long
	// unless it fails.
	patience = 20 * time.Second
)

var marks atomic.Int64

func newMark() string { return fmt.Sprintf("%d-%d", os.Getpid(), marks.Add(1)) }

// tree is one command, its guard, and this process as the supervisor.
type tree struct {
	t       *testing.T
	host    *Host
	guard   *Guard
	mark    string
	started bool
	dead    bool // as was told: the guard ends by itself, and removes its control group
}

// prepare launches a guard for a shell script.
func prepare(t *testing.T, script string) *tree {
	t.Helper()
	return prepareSpec(t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}})
}

// prepareSpec launches a guard; Env is what the test has.
func prepareSpec(t *testing.T, spec Spec) *tree {
	t.Helper()
	host, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	// The race detector otherwise sleeps for a second at every exit.
	spec.Env = slices.Concat(os.Environ(), spec.Env, []string{"GORACE=atexit_sleep_ms=0"})
	if !useCgroups {
		spec.Env = append(spec.Env, noCgroupVar+"=1")
	}
	launched, err := host.Launch(spec)
	if err != nil {
		host.Close()
		t.Fatal(err)
	}
	tr := &tree{t: t, host: host, guard: launched.(*Guard), mark: newMark()}
	t.Cleanup(tr.end)
	return tr
}

// end leaves nothing behind, however the test ended.
func (tr *tree) end() {
	if tr.started {
		if !tr.dead {
			tr.guard.Abandon()
		}
		for range tr.guard.Events() {
		}
	} else {
		tr.guard.Retire()
	}
	tr.host.Close()
	for _, pid := range marked(tr.mark) {
		tr.t.Errorf("process %d of the command has outlived its guard", pid)
	}
}

// run starts the command, without a deadline, and waits until it has started.
func (tr *tree) run() (first int) {
	tr.t.Helper()
	tr.start(supervisor.Start{})
	return tr.next(supervisor.Started).Pid
}

func (tr *tree) start(start supervisor.Start) {
	tr.t.Helper()
	tr.started = true
	start.Vars = append(start.Vars, markVar+"="+tr.mark)
	if err := tr.guard.Start(start); err != nil {
		tr.t.Fatal(err)
	}
	tr.next(supervisor.Accepted)
}

// next returns the next event, which has to be of the kind. That KILL was sent is
// passed over, unless it is asked for.
func (tr *tree) next(kind supervisor.GuardEventKind) supervisor.GuardEvent {
	tr.t.Helper()
	select {
	case event, open := <-tr.guard.Events():
		if open && event.Kind == supervisor.Killing && kind != supervisor.Killing {
			return tr.next(kind)
		}
		if !open {
			tr.t.Fatalf("the events ended before %q", kind)
		}
		if event.Kind != kind {
			tr.t.Fatalf("%+v came instead of %q", event, kind)
		}
		tr.dead = kind == supervisor.Dead
		return event
	case <-time.After(patience):
		tr.t.Fatalf("%q did not come", kind)
	}
	panic("not reached")
}

// nothingLeft is called when Dead was told.
func (tr *tree) nothingLeft() {
	tr.t.Helper()
	if left := marked(tr.mark); len(left) > 0 {
		tr.t.Errorf("the tree is said to be dead, but %d of it live", len(left))
	}
}

// awaitProcesses waits until the command has so many processes.
func awaitProcesses(t *testing.T, mark string, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d processes of the command", n), func() bool { return len(marked(mark)) == n })
}

// await waits until the condition holds. To look takes processor time: the longer
// it was waited for, the longer it waits for the next look.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	for !holds() {
		waited := time.Since(began)
		if waited > patience {
			t.Fatalf("%s: waited for it for %s in vain", what, patience)
		}
		time.Sleep(min(max(waited/8, 2*time.Millisecond), 100*time.Millisecond))
	}
}

// marked returns the living processes of a command. It looks at the environment
// of every process of this host, so it also finds one that has left the tree.
func marked(mark string) []int {
	variable := []byte("\x00" + markVar + "=" + mark + "\x00")
	has := func(file string) bool {
		env, _ := os.ReadFile(file) // fails, or is empty, for a dead one
		return bytes.Contains(append([]byte{0}, env...), variable)
	}
	var pids []int
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := "/proc/" + entry.Name()
		environs := []string{dir + "/environ"}
		// Other threads speak for a process whose first one has ended.
		if stat, _ := os.ReadFile(dir + "/stat"); bytes.Contains(stat, []byte(") Z ")) {
			environs, _ = filepath.Glob(dir + "/task/*/environ")
		}
		if slices.ContainsFunc(environs, has) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// withAndWithoutCgroup runs a test in both ways in which a tree is found.
func withAndWithoutCgroup(t *testing.T, test func(t *testing.T)) {
	t.Run("with a control group", func(t *testing.T) {
		probe := makeCgroup(newGroup())
		if probe == nil {
			t.Fatal("no control group can be made here; these tests need root and a cgroup v2 hierarchy with cgroup.kill")
		}
		probe.remove()
		test(t)
	})
	t.Run("through /proc alone", func(t *testing.T) {
		useCgroups = false
		defer func() { useCgroups = true }()
		test(t)
	})
}

// soon and far are deadlines.
func soon() boottime.Instant { return boottime.Now().Add(200 * time.Millisecond) }
func far() boottime.Instant  { return boottime.Now().Add(time.Hour) }
