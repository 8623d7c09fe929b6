package guard

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/guardtest"
	"berth/internal/guard/procfs"
	"berth/internal/guard/tree"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// awaitNoCgroup waits until the guard's control group is gone. The guard
// removes it after it has told that the tree is dead.
func awaitNoCgroup(t *testing.T, path string) {
	t.Helper()
	guardtest.Await(t, "the end of the control group", func() bool { return path == "" || !guardtest.Exists(path) })
}

func TestCommandHasAControlGroupUntilItIsDead(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	first := tr.run()
	path := tr.guard.cgroup
	if path == "" {
		t.Fatal("this process is in no cgroup v2 hierarchy; this test needs one, and root")
	}
	members, err := os.ReadFile(path + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	if pids := strings.Fields(string(members)); len(pids) == 0 {
		t.Errorf("the control group of process %d is empty", first)
	}
	if err := os.Mkdir(path+"/inner", 0o755); err != nil { // as a container runtime would
		t.Fatal(err)
	}
	if err := tr.guard.Kill(); err != nil {
		t.Fatal(err)
	}
	tr.next(wire.Exited)
	tr.next(wire.Dead)
	awaitNoCgroup(t, path)
}

func TestControlGroupOfADeadGuardIsRemoved(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	tr.run()
	path := tr.guard.cgroup
	if !guardtest.Exists(path) {
		t.Fatalf("there is no control group %q; this test needs a cgroup v2 hierarchy, and root", path)
	}
	tr.guard.Abandon()
	tr.next(wire.Exited)
	tr.next(wire.Dead)
	if guardtest.Exists(path) {
		t.Errorf("%s is left", path)
	}
}

// Numbers of processes come around: a later guard has the number of one that was
// killed before it could remove its group, and what is forked into a group that
// was killed dies at once.
func TestControlGroupThatWasLeftBehindIsNotUsedAgain(t *testing.T) {
	path := newCgroup()
	left := tree.MakeCgroup(path)
	if left == nil {
		t.Fatal("no control group can be made here; this test needs a cgroup v2 hierarchy, and root")
	}
	dead := tree.Tree{Env: procfs.Kernel(), Cgroup: left}
	defer dead.Close()
	dead.Kill()
	if tree.MakeCgroup(path) != nil {
		t.Error("a group that exists already is used")
	}
	if newCgroup() == path {
		t.Error("two guards have one group")
	}
}

// Both are killed at once, and nobody is there to remove it.
func TestControlGroupThatWasLeftBehindIsRemovedByTheNextGuard(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	own := tr.guard.cgroup // empty, and not left behind
	guardtest.Await(t, "the control group", func() bool { return guardtest.Exists(own) })
	left := newCgroup()
	if err := os.MkdirAll(left+"/inner", 0o755); err != nil {
		t.Fatalf("%v; this test needs a cgroup v2 hierarchy, and root", err)
	}
	next, err := tr.host.Launch(Spec{Path: "/bin/true", Args: []string{"true"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the end of what was left", func() bool { return !guardtest.Exists(left) })
	next.Retire()
	tr.run()
	if members, err := os.ReadFile(own + "/cgroup.procs"); err != nil || len(members) == 0 {
		t.Errorf("the command is not in its control group: %q, %v", members, err)
	}
}

// leave makes a control group as guards have one, with a process. It is left behind once it is unlocked: guards of other
// tests end what they find in such a group.
func leave(t *testing.T) (group *os.File, orphan int) {
	t.Helper()
	path := newCgroup()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatalf("%v; this test needs a cgroup v2 hierarchy, and root", err)
	}
	t.Cleanup(func() { os.Remove(path) })
	group, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group.Close() })
	if err := unix.Flock(int(group.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	orphan, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(orphan, syscall.SIGKILL) })
	return group, orphan
}

// A supervisor was stopped, its guard killed, and then it was: nobody is there to kill the rest.
func TestWhatIsLeftInAControlGroupIsDeadBeforeTheNextStart(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	own := tr.guard.cgroup
	guardtest.Await(t, "the control group", func() bool { return guardtest.Exists(own) })
	left, orphan := leave(t)
	if err := unix.Flock(int(left.Fd()), unix.LOCK_SH); err != nil { // as another guard that is launched meanwhile
		t.Fatal(err)
	}
	tr.run()
	if status := guardtest.StatusOf(orphan); status != "" && !strings.Contains(status, "State:\tZ") {
		t.Errorf("it lives beside the next command: %s", status)
	}
	awaitNoCgroup(t, left.Name())
}

// KILL does not end at once what waits in the kernel.
func TestNothingIsStartedAfterTheDeadlineBesideWhatIsLeft(t *testing.T) {
	tracer := guardtest.NewTracer(t)
	defer tracer.End()
	tr := prepare(t, `exec sleep 1000`)
	own := tr.guard.cgroup
	guardtest.Await(t, "the control group", func() bool { return guardtest.Exists(own) })
	left, orphan := leave(t)
	tracer.Keep(orphan, guardtest.KeptAlive)
	if err := unix.Flock(int(left.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	tr.start(supervisor.Start{Deadline: boottime.Now().Add(50 * time.Millisecond)})
	tr.next(wire.Overdue)
	tr.next(wire.Dead)
}

// Another guard is about to lock one, and an administrator may call theirs so.
func TestControlGroupsOfOthersAreLeftAlone(t *testing.T) {
	dir := filepath.Join(ownCgroup(), "test-"+rand.Text()) // out of reach of other guards
	name := func() string { return filepath.Join(dir, tree.CgroupPrefix+rand.Text()) }
	left, beingMade := name(), name()
	all := []string{dir, left, beingMade, left + "-jobs", dir + "/berth-jobs", dir + "/BERTH"}
	for _, path := range all {
		mode := os.FileMode(0o755)
		if path == beingMade {
			mode = 0o700
		}
		if err := os.Mkdir(path, mode); err != nil {
			t.Fatalf("%v; this test needs a cgroup v2 hierarchy, and root", err)
		}
		defer os.Remove(path)
	}
	host, err := newHost(env{procfs.Kernel(), name})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	g, err := host.Launch(Spec{Path: "/bin/true", Args: []string{"true"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the end of what was left", func() bool { return !guardtest.Exists(left) })
	g.Retire() // it has looked at all of them
	for _, path := range all {
		if path != left && !guardtest.Exists(path) {
			t.Errorf("%s was removed", path)
		}
	}
}

// It is made ahead of time, and a waiter can wait for days.
func TestControlGroupOfAGuardThatStartedNothingIsRemoved(t *testing.T) {
	for name, end := range map[string]func(g *Guard){
		"retired": func(g *Guard) { g.conn.Close() },
		"killed":  (*Guard).Abandon,
	} {
		t.Run(name, func(t *testing.T) {
			tr := prepare(t, `exec sleep 1000`)
			path := tr.guard.cgroup
			guardtest.Await(t, "the control group", func() bool { return guardtest.Exists(path) })
			end(tr.guard)
			for range tr.guard.Events() {
			}
			if guardtest.Exists(path) {
				t.Errorf("%s is left", path)
			}
		})
	}
}
