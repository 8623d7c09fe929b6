package guard

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"berth/supervisor"
)

func TestStoppedProcessIsToldFromARunningOne(t *testing.T) {
	process := sleeper(t)
	if halted(process.Pid) {
		t.Error("a running process counts as stopped")
	}
	_ = process.Signal(unix.SIGSTOP)
	await(t, "it to count as stopped", func() bool { return halted(process.Pid) })
	_ = process.Signal(unix.SIGCONT)
	await(t, "it to count as running", func() bool { return !halted(process.Pid) })
	if halted(1 << 30) {
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
		"nothing pending":          {status{state: 'S'}, false},
		"another signal":           {status{pending: set(unix.SIGTERM) | set(unix.SIGCONT)}, false},
		"STOP":                     {status{pending: set(unix.SIGSTOP), blocked: ^uint64(0)}, true},
		"TTIN":                     {status{pending: set(unix.SIGTTIN), caught: set(unix.SIGTSTP)}, true},
		"TSTP, which is blocked":   {status{pending: set(unix.SIGTSTP), blocked: set(unix.SIGTSTP)}, false},
		"TSTP, which has a use":    {status{pending: set(unix.SIGTSTP), caught: set(unix.SIGTSTP)}, false},
		"TTOU, which is ignored":   {status{pending: set(unix.SIGTTOU), ignored: set(unix.SIGTTOU)}, false},
		"TTOU as well as a TSTP":   {status{pending: set(unix.SIGTTOU) | set(unix.SIGTSTP), caught: set(unix.SIGTSTP)}, true},
		"a use for what is not up": {status{caught: set(unix.SIGTSTP)}, false},
	} {
		if got := c.status.stopPending(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Without a control group the tree is stopped by STOP, and goes on at the thaw:
// once, though a signal came in between.
func TestFrozenProcessIsContinuedOnce(t *testing.T) {
	useCgroups = false
	defer func() { useCgroups = true }()
	dir := t.TempDir()
	tr := prepare(t, `trap 'echo cont >>`+dir+`/got' CONT; trap 'echo term >>`+dir+`/got' TERM
		: >`+dir+`/up; while :; do sleep 0.01; done`)
	tr.run()
	await(t, "the traps", func() bool { return exists(dir + "/up") })
	tr.freeze()
	_ = tr.guard.Signal(unix.SIGTERM, supervisor.Tree)
	_ = tr.guard.Thaw()
	got := func() string {
		text, _ := os.ReadFile(dir + "/got")
		return string(text)
	}
	await(t, "both signals", func() bool { return len(got()) >= len("cont\nterm\n") })
	_ = tr.guard.Signal(unix.SIGTERM, supervisor.First)
	await(t, "another signal", func() bool { return len(got()) >= len("cont\nterm\nterm\n") })
	if text := got(); text != "term\ncont\nterm\n" && text != "cont\nterm\nterm\n" {
		t.Errorf("it got %q", text)
	}
}
