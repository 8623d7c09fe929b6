package guard

import (
	"os"
	"strings"
	"testing"

	"berth/supervisor"
)

// awaitNoCgroup waits until the guard's control group is gone. The guard
// removes it after it has told that the tree is dead.
func awaitNoCgroup(t *testing.T, path string) {
	t.Helper()
	await(t, "the end of the control group", func() bool { return path == "" || !exists(path) })
}

func TestCommandHasAControlGroupUntilItIsDead(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	first := tr.run()
	path := tr.guard.group
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
	tr.next(supervisor.Exited)
	tr.next(supervisor.Dead)
	awaitNoCgroup(t, path)
}

func TestControlGroupOfADeadGuardIsRemoved(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	tr.run()
	path := tr.guard.group
	if !exists(path) {
		t.Fatalf("there is no control group %q; this test needs a cgroup v2 hierarchy, and root", path)
	}
	tr.guard.Abandon()
	tr.next(supervisor.Exited)
	tr.next(supervisor.Dead)
	if exists(path) {
		t.Errorf("%s is left", path)
	}
}
