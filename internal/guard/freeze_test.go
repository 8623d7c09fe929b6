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

// frozenCommand runs a guardtest.Forest and freezes it.
func frozenCommand(t *testing.T) *command {
	t.Helper()
	tr := prepare(t, guardtest.Forest)
	tr.start(supervisor.Start{Deadline: far()})
	tr.next(wire.Started)
	guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
	guardtest.Await(t, "the process that is stopped by itself", func() bool { return len(tr.inState("T")) == 1 })
	tr.freeze()
	return tr
}

// freeze freezes the tree, and waits until it is and stays so. One look can leave out a process that forks or executes
// a program just then, and that is stopped a moment later.
func (tr *command) freeze() {
	tr.t.Helper()
	if err := tr.guard.Freeze(); err != nil {
		tr.t.Fatal(err)
	}
	const enough = 5
	looks := 0
	guardtest.Await(tr.t, "the tree to be frozen", func() bool {
		if looks++; !tr.frozen() {
			looks = 0
		}
		return looks == enough
	})
}

// inState returns the command's processes in a state.
func (tr *command) inState(letter string) []int {
	return slices.DeleteFunc(guardtest.Marked(tr.mark), func(pid int) bool {
		return !strings.Contains(guardtest.StatusOf(pid), "State:\t"+letter)
	})
}

// frozen reports whether no process of the command can run.
func (tr *command) frozen() bool {
	events, _ := os.ReadFile(tr.guard.cgroup + "/cgroup.events")
	return strings.Contains(string(events), "frozen 1") || !slices.ContainsFunc(guardtest.Marked(tr.mark), canRun)
}

// canRun is false for a process that is stopped, and for one that waits for a
// child which was stopped between vfork and exec: that wait cannot be
// interrupted, so the process does not get as far as to stop.
func canRun(pid int) bool {
	status := guardtest.StatusOf(pid)
	return !strings.Contains(status, "State:\tT") && !strings.Contains(status, "State:\tD")
}

func TestFrozenTreeGoesOnAfterTheThawButForWhatWasStoppedBefore(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := frozenCommand(t)
		if err := tr.guard.Thaw(); err != nil {
			t.Fatal(err)
		}
		guardtest.Await(t, "the tree to go on", func() bool { return !tr.frozen() && len(tr.inState("T")) == 1 })
		tr.freeze() // again
		if err := tr.guard.Thaw(); err != nil {
			t.Fatal(err)
		}
		guardtest.Await(t, "the tree to go on again", func() bool { return !tr.frozen() && len(tr.inState("T")) == 1 })
	})
}

func TestSignalToAFrozenTreeTakesEffectAtTheThaw(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		up := filepath.Join(t.TempDir(), "up")
		tr := prepare(t, `trap "exit 9" TERM; : >`+up+`; while :; do sleep 0.01; done`)
		tr.run()
		guardtest.Await(t, "the trap", func() bool { return guardtest.Exists(up) })
		tr.freeze()
		_ = tr.guard.Signal(unix.SIGTERM, wire.Tree)
		_ = tr.guard.Thaw()
		if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 9 {
			t.Errorf("it ended as %+v", exited)
		}
		tr.next(wire.Dead)
	})
}

func TestFrozenTreeCanBeKilled(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		t.Run("when told", func(t *testing.T) {
			tr := frozenCommand(t)
			_ = tr.guard.Kill()
			tr.next(wire.Exited)
			tr.next(wire.Dead)
			tr.nothingLeft()
		})
		t.Run("at the deadline", func(t *testing.T) {
			tr := frozenCommand(t)
			_ = tr.guard.Renew(soon())
			tr.next(wire.Overdue)
			tr.next(wire.Exited)
			tr.next(wire.Dead)
			tr.nothingLeft()
		})
		t.Run("when the guard dies", func(t *testing.T) {
			tr := frozenCommand(t)
			tr.guard.Abandon()
			tr.orphansDie()
		})
		t.Run("when the supervisor is gone", func(t *testing.T) {
			tr := frozenCommand(t)
			tr.guard.conn.Close()
			guardtest.AwaitProcesses(t, tr.mark, 0)
		})
	})
}

// Without a control group, what is forked while the tree is looked through has
// to be found too.
func TestTreeThatGoesOnForkingIsFrozenAsAWhole(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepare(t, `while :; do (setsid sleep 0.3 &); sleep 0.01; done`)
		tr.run()
		for range 5 {
			guardtest.Await(t, "it to fork", func() bool { return len(guardtest.Marked(tr.mark)) > 3 })
			tr.freeze()
			_ = tr.guard.Thaw()
			guardtest.Await(t, "the tree to go on", func() bool { return !tr.frozen() })
		}
	})
}

func TestCommandThatTheUserContinuesWhileFrozenGoesOnAtTheThaw(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepare(t, `exec sleep 1000`)
		first := tr.run()
		guardtest.AwaitProcesses(t, tr.mark, 1)
		_ = tr.guard.Signal(unix.SIGTSTP, wire.Group)
		guardtest.Await(t, "the user's stop", func() bool { return len(tr.inState("T")) == 1 })
		tr.freeze()
		_ = tr.guard.Signal(unix.SIGCONT, wire.Group)
		_ = tr.guard.Signal(unix.SIGUSR1, wire.First) // obeyed after it, and pending until the thaw
		guardtest.Await(t, "the signal after it", func() bool {
			const usr1 = "ShdPnd:\t0000000000000200"
			return strings.Contains(guardtest.StatusOf(first), usr1)
		})
		if !tr.frozen() {
			t.Error("the command goes on, although it is frozen")
		}
		_ = tr.guard.Thaw()
		if exited := tr.next(wire.Exited); exited.Status.Signal() != unix.SIGUSR1 {
			t.Errorf("it ended as %+v", exited)
		}
		tr.next(wire.Dead)
	})
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
	guardtest.Await(t, "the traps", func() bool { return guardtest.Exists(dir + "/up") })
	tr.freeze()
	_ = tr.guard.Signal(unix.SIGTERM, wire.Tree)
	_ = tr.guard.Thaw()
	got := func() string {
		text, _ := os.ReadFile(dir + "/got")
		return string(text)
	}
	guardtest.Await(t, "both signals", func() bool { return len(got()) >= len("cont\nterm\n") })
	_ = tr.guard.Signal(unix.SIGTERM, wire.First)
	guardtest.Await(t, "another signal", func() bool { return len(got()) >= len("cont\nterm\nterm\n") })
	if text := got(); text != "term\ncont\nterm\n" && text != "cont\nterm\nterm\n" {
		t.Errorf("it got %q", text)
	}
}
