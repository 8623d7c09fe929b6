package guard

import (
	"os"
	"slices"
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/internal/guard/guardtest"
	"berth/internal/guard/procfs"
	"berth/internal/guard/tree"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// useCgroups says whether guards of tests have control groups: /proc has to lead to the
// tree alone, too.
var useCgroups = true

func newTestHost() (*Host, error) {
	if useCgroups {
		return NewHost()
	}
	return newHost(env{procfs.Kernel(), func() string { return "" }})
}

// command is one command, its guard, and this process as the supervisor.
type command struct {
	t       *testing.T
	host    *Host
	guard   *Guard
	mark    string
	started bool
	dead    bool // as was told: the guard ends by itself, and removes its control group
}

// prepare launches a guard for a shell script.
func prepare(t *testing.T, script string) *command {
	t.Helper()
	return prepareSpec(t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}})
}

// prepareSpec launches a guard; Env is what the test has.
func prepareSpec(t *testing.T, spec Spec) *command {
	t.Helper()
	host, err := newTestHost()
	if err != nil {
		t.Fatal(err)
	}
	return launchWith(t, host, spec)
}

// launchWith is prepareSpec with a host that is there.
func launchWith(t *testing.T, host *Host, spec Spec) *command {
	t.Helper()
	// The race detector otherwise sleeps for a second at every exit.
	spec.Env = slices.Concat(os.Environ(), spec.Env, []string{"GORACE=atexit_sleep_ms=0"})
	launched, err := host.Launch(spec)
	if err != nil {
		host.Close()
		t.Fatal(err)
	}
	tr := &command{t: t, host: host, guard: launched.(*Guard), mark: guardtest.NewMark()}
	t.Cleanup(tr.end)
	return tr
}

// end leaves nothing behind, however the test ended.
func (tr *command) end() {
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
	for _, pid := range guardtest.Marked(tr.mark) {
		tr.t.Errorf("process %d of the command has outlived its guard", pid)
	}
}

// run starts the command, without a deadline, and waits until it has started.
func (tr *command) run() (first int) {
	tr.t.Helper()
	tr.start(supervisor.Start{})
	return tr.next(wire.Started).Pid
}

func (tr *command) start(start supervisor.Start) {
	tr.t.Helper()
	tr.started = true
	start.Vars = append(start.Vars, guardtest.MarkVar+"="+tr.mark)
	if err := tr.guard.Start(start); err != nil {
		tr.t.Fatal(err)
	}
	tr.next(wire.Accepted)
}

// next returns the next event, which has to be of the kind. That KILL was sent is
// passed over, unless it is asked for.
func (tr *command) next(kind wire.Kind) wire.Event {
	tr.t.Helper()
	select {
	case event, open := <-tr.guard.Events():
		if open && event.Kind == wire.Killing && kind != wire.Killing {
			return tr.next(kind)
		}
		if !open {
			tr.t.Fatalf("the events ended before %q", kind)
		}
		if event.Kind != kind {
			tr.t.Fatalf("%+v came instead of %q", event, kind)
		}
		tr.dead = kind == wire.Dead
		return event
	case <-time.After(guardtest.Patience):
		tr.t.Fatalf("%q did not come", kind)
	}
	panic("not reached")
}

// nothingLeft is called when Dead was told.
func (tr *command) nothingLeft() {
	tr.t.Helper()
	if left := guardtest.Marked(tr.mark); len(left) > 0 {
		tr.t.Errorf("the tree is said to be dead, but %d of it live", len(left))
	}
}

// withAndWithoutCgroup runs a test in both ways in which a tree is found.
func withAndWithoutCgroup(t *testing.T, test func(t *testing.T)) {
	t.Run("with a control group", func(t *testing.T) {
		probe := tree.MakeCgroup(newCgroup())
		if probe == nil {
			t.Fatal("no control group can be made here; these tests need root and a cgroup v2 hierarchy with " +
				"cgroup.kill")
		}
		(&tree.Tree{Cgroup: probe}).Close()
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
