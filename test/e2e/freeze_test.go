package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// patientLease are timings with a lease that a paused broker does not use up,
// and a doubt that begins soon.
var patientLease = []string{"--heartbeat=30s", "--verify-interval=200ms", "--verify-timeout=500ms", "--in-doubt=freeze"}

// frozen reports whether a process was stopped by STOP, or by its control group.
func (p process) frozen() bool {
	if p.state == "T" {
		return true
	}
	for _, line := range lines(fmt.Sprintf("/proc/%d/cgroup", p.pid)) {
		if path, found := strings.CutPrefix(line, "0::"); found {
			events, _ := filepath.Glob("/sys/fs/cgroup" + path + "/cgroup.events")
			hybrid, _ := filepath.Glob("/sys/fs/cgroup/unified" + path + "/cgroup.events")
			return slices.ContainsFunc(slices.Concat(events, hybrid), func(file string) bool {
				return slices.Contains(lines(file), "frozen 1")
			})
		}
	}
	return false
}

// awaitFrozen waits until all processes of the command are frozen, or none.
func (b *berth) awaitFrozen(want bool) {
	b.t.Helper()
	var tree []process
	until(b.t, fmt.Sprintf("all of the tree to have frozen: %v", want), func() bool {
		tree = b.command()
		return len(tree) == treeSize && !slices.ContainsFunc(tree, func(p process) bool { return p.frozen() != want })
	}, func() string { return fmt.Sprintf("it is %v", tree) })
}

// freezers are the ways in which a tree is frozen.
var freezers = map[string]setup{
	"by its control group": {},
	"by STOP":              {via: []string{"unshare", "--mount", "sh", "-c", `umount -a -t cgroup2; exec "$0" "$@"`}},
}

// fault: freeze
func frozenWhileTheBrokerIsSilentAndThenGoesOn(t *testing.T) {
	broker := roughBroker(t)
	var all []*berth
	var contests []contest
	for _, how := range freezers {
		for _, more := range [][]string{nil, {inNamespace}} {
			c := lossCase{kind: "mutex"}.made(t, broker)
			b := how.start(t, c.args(tree, slices.Concat(patientLease, []string{quickStop}, more)...)...)
			b.awaitRuns(1)
			contests, all = append(contests, c), append(all, b)
		}
	}
	if err := broker.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		b.awaitFrozen(true)
		b.reload(0) // needs no broker
	}
	if err := broker.Continue(); err != nil {
		t.Fatal(err)
	}
	for i, b := range all {
		b.awaitFrozen(false)
		if !b.undisturbed() {
			t.Errorf("the command ran %d times, and has the processes %v", len(b.runs()), b.command())
		}
		contests[i].wantHeld()
		b.signal(syscall.SIGTERM)
		b.wantStatus(143)
		b.wantNothingLeft()
	}
}

// fault: freeze
func frozenCommandIsEndedWhenTheBrokerStaysSilent(t *testing.T) {
	broker := roughBroker(t)
	// Two seconds for the shell to get a word out, however busy the machine is.
	timings := []string{"--heartbeat=3s", "--verify-interval=300ms", "--verify-timeout=500ms", "--loss=TERM 2s, KILL",
		"--in-doubt=freeze", "--on-loss=exit"}
	told := `trap 'echo told >"$E2E_DIR/told"; exit 0' TERM; echo >>"$E2E_DIR/runs"; while :; do sleep 0.05; done`
	var all []*berth
	for _, how := range freezers {
		c := lossCase{kind: "mutex"}.made(t, broker)
		b := how.start(t, c.args(told, timings...)...)
		b.awaitRuns(1)
		all = append(all, b)
	}
	if err := broker.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		b.awaitLog("command frozen")
		b.wantNoCommand()
		if len(lines(filepath.Join(b.dir, "told"))) != 1 {
			t.Error("the command did not get TERM")
		}
	}
	if err := broker.Continue(); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		b.wantStatus(76)
		b.wantNothingLeft()
	}
}

// fault: freeze, supervisor-killed
func frozenCommandDiesWithItsSupervisor(t *testing.T) {
	broker := roughBroker(t)
	var all []*berth
	for _, how := range freezers {
		b := how.start(t, lossCase{kind: "mutex"}.made(t, broker).args(tree, patientLease...)...)
		b.awaitRuns(1)
		all = append(all, b)
	}
	if err := broker.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		b.awaitFrozen(true)
		b.signal(syscall.SIGKILL)
	}
	for _, b := range all {
		b.wantNoCommand()
	}
	if err := broker.Continue(); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		b.wantNothingLeft()
	}
}
