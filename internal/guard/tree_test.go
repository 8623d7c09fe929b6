package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// hardToKill are commands that leave their first process's reach in some way.
// Each comes to rest with so many processes.
var hardToKill = []struct {
	name      string
	script    string
	processes int
	ends      bool // the first process, by itself
}{
	{"a plain process", `exec sleep 1000`, 1, false},
	{"children that ignore TERM", `trap "" TERM INT QUIT HUP; sleep 1000 & sleep 1000 & wait`, 3, false},
	{"a daemon that forked twice", `sh -c "setsid sh -c 'sleep 1000 & exec sleep 1000' &"; exec sleep 1000`, 3, false},
	{"deep descendants", `sh -c "sh -c 'sh -c \"sleep 1000; true\"; true'; true"; true`, 5, false},
	{"stopped processes", `sleep 1000 & sleep 1000 & kill -STOP $! ; kill -STOP $$`, 3, false},
	{"a first process that has ended", `setsid sleep 1000 & sleep 1000 &`, 2, true},
}

func TestKillLeavesNothingOfTheTree(t *testing.T) {
	for _, c := range hardToKill {
		t.Run(c.name, func(t *testing.T) {
			withAndWithoutCgroup(t, func(t *testing.T) {
				tr := prepare(t, c.script)
				tr.run()
				if c.ends {
					tr.next(wire.Exited)
				}
				guardtest.AwaitProcesses(t, tr.mark, c.processes)
				if err := tr.guard.Kill(); err != nil {
					t.Fatal(err)
				}
				if !c.ends {
					if exited := tr.next(wire.Exited); exited.Status.Signal() != unix.SIGKILL {
						t.Errorf("the first process ended as %+v", exited)
					}
				}
				tr.next(wire.Dead)
				tr.nothingLeft()
			})
		})
	}
}

func TestTreeThatGrowsWhileItIsKilledIsKilled(t *testing.T) {
	for name, script := range map[string]string{
		// 2 to the power of 7 processes, then each of them keeps forking.
		"a fork bomb in one group": `bomb() { [ $1 != 0 ] || : >"$GROWN"; [ $1 = 0 ] || { bomb $(($1 - 1)) & bomb $(($1 - 1)) & }; while :; do sleep 0.02; done; }; bomb 6`,
		// Each process starts the next one in a session of its own and ends.
		"a chain of sessions": `export n=0 s='n=$((n + 1)); [ $n -lt 5 ] || : >"$GROWN"; [ $n -gt 3000 ] || setsid sh -c "$s" & sleep 0.05'; for i in 1 2 3 4; do setsid sh -c "$s" & done; exec sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutCgroup(t, func(t *testing.T) {
				tr := prepare(t, script)
				// Counting them would take longer than they live.
				grown := filepath.Join(t.TempDir(), "grown")
				tr.start(supervisor.Start{Vars: []string{"GROWN=" + grown}})
				tr.next(wire.Started)
				guardtest.Await(t, "the tree to grow", func() bool { return guardtest.Exists(grown) })
				if err := tr.guard.Kill(); err != nil {
					t.Fatal(err)
				}
				tr.next(wire.Exited)
				tr.next(wire.Dead)
				tr.nothingLeft()
			})
		})
	}
}

// A process whose first thread has ended looks dead in /proc/PID/stat.
func TestProcessWithoutItsFirstThreadIsPartOfTheTree(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		for name, end := range map[string]func(tr *command) error{
			"kill":   func(tr *command) error { return tr.guard.Kill() },
			"signal": func(tr *command) error { return tr.guard.Signal(unix.SIGTERM, wire.Tree) },
		} {
			t.Run(name, func(t *testing.T) {
				tr := prepareSpec(t, Spec{Path: "/proc/self/exe", Args: []string{"threads"}})
				tr.start(supervisor.Start{Vars: []string{guardtest.RoleVar + "=without first thread"}})
				first := tr.next(wire.Started).Pid
				guardtest.Await(t, "the end of the first thread", func() bool {
					return strings.Contains(guardtest.StatusOf(first), "State:\tZ")
				})
				if err := end(tr); err != nil {
					t.Fatal(err)
				}
				tr.next(wire.Exited)
				tr.next(wire.Dead)
				tr.nothingLeft()
			})
		}
	})
}

func TestSignalToTheTreeReachesEveryProcessEvenStopped(t *testing.T) {
	tr := prepare(t, `
		setsid sh -c 'sleep 1000 & kill -STOP $$' &
		sleep 1000 & kill -STOP $!
		exec sleep 1000`)
	tr.run()
	guardtest.AwaitProcesses(t, tr.mark, 4)
	if err := tr.guard.Signal(unix.SIGTERM, wire.Tree); err != nil {
		t.Fatal(err)
	}
	exited := tr.next(wire.Exited)
	if exited.Status.Signal() != unix.SIGTERM {
		t.Errorf("the first process ended as %+v", exited)
	}
	tr.next(wire.Dead)
	tr.nothingLeft()
}

func TestSignalToTheFirstProcessReachesItAlone(t *testing.T) {
	dir := t.TempDir()
	tr := prepare(t, `
		trap 'touch `+dir+`/first' USR1
		(trap 'touch `+dir+`/second' USR1; touch `+dir+`/ready; while :; do sleep 0.01; done) &
		while :; do sleep 0.01; done`)
	tr.run()
	guardtest.Await(t, "the second process", func() bool { return guardtest.Exists(dir + "/ready") })
	if err := tr.guard.Signal(unix.SIGUSR1, wire.First); err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the signal", func() bool { return guardtest.Exists(dir + "/first") })
	if err := tr.guard.Signal(unix.SIGUSR1, wire.Group); err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the signal to the group", func() bool { return guardtest.Exists(dir + "/second") })
}

// The first process may wait for what is stopped. What is not it tells itself, or not.
func TestSignalToTheHeadIsForTheFirstProcessAndContinuesWhatIsStopped(t *testing.T) {
	dir := t.TempDir()
	tr := prepare(t, `
		trap 'touch `+dir+`/first' TERM
		(trap 'touch `+dir+`/second' TERM; touch `+dir+`/ready; while :; do sleep 0.01; done) &
		sh -c 'kill -STOP $$; touch `+dir+`/continued; exec sleep 1000' &
		while :; do sleep 0.01; done`)
	tr.run()
	guardtest.Await(t, "the second process", func() bool { return guardtest.Exists(dir + "/ready") })
	guardtest.Await(t, "the stop", func() bool {
		return slices.ContainsFunc(guardtest.Marked(tr.mark), func(pid int) bool {
			return strings.Contains(guardtest.StatusOf(pid), "State:\tT")
		})
	})
	if err := tr.guard.Signal(unix.SIGTERM, wire.Head); err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the signal", func() bool { return guardtest.Exists(dir + "/first") })
	guardtest.Await(t, "what was stopped", func() bool { return guardtest.Exists(dir + "/continued") })
	if guardtest.Exists(dir + "/second") {
		t.Error("another process was sent the signal")
	}
	_ = os.Remove(dir + "/first")
	if err := tr.guard.Signal(unix.SIGTERM, wire.Rest); err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the signal to the rest", func() bool { return guardtest.Exists(dir + "/second") })
	if guardtest.Exists(dir + "/first") {
		t.Error("the first process was sent the signal to the rest")
	}
}

func TestFirstProcessThatEndsTellsWhetherOthersAreLeft(t *testing.T) {
	tr := prepare(t, `setsid sleep 1000 & exit 7`)
	tr.run()
	if exited := tr.next(wire.Exited); !exited.Left || exited.Status.ExitStatus() != 7 {
		t.Errorf("it is told as %+v", exited)
	}
	guardtest.AwaitProcesses(t, tr.mark, 1) // not ended without being told to; it may be about to execute
	if err := tr.guard.Signal(unix.SIGTERM, wire.Tree); err != nil {
		t.Fatal(err)
	}
	tr.next(wire.Dead)
	tr.nothingLeft()
}
