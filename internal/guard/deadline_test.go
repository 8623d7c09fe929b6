package guard

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/supervisor"
)

func TestDeadlineThatPassesKillsTheTree(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepare(t, forest)
		tr.start(supervisor.Start{Deadline: far()})
		tr.next(supervisor.Started)
		awaitProcesses(t, tr.mark, forestSize)
		deadline := soon()
		if err := tr.guard.Renew(deadline); err != nil {
			t.Fatal(err)
		}
		tr.next(supervisor.Overdue)
		if !deadline.Passed() {
			t.Error("the tree is killed before its deadline")
		}
		if exited := tr.next(supervisor.Exited); exited.Status.Signal() != unix.SIGKILL {
			t.Errorf("the first process ended as %+v", exited)
		}
		tr.next(supervisor.Dead)
		tr.nothingLeft()
	})
}

func TestRenewedDeadlineKillsNothing(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	first := boottime.Now().Add(3 * time.Second) // never comes to pass, or the machine is beyond use
	tr.start(supervisor.Start{Deadline: first})
	tr.next(supervisor.Started)
	if err := tr.guard.Renew(far()); err != nil {
		t.Fatal(err)
	}
	await(t, "the first deadline", first.Passed)
	// Orders are obeyed in turn, and a deadline that has passed comes before them.
	if err := tr.guard.Signal(unix.SIGTERM, supervisor.First); err != nil {
		t.Fatal(err)
	}
	if exited := tr.next(supervisor.Exited); exited.Status.Signal() != unix.SIGTERM {
		t.Errorf("the command ended as %+v", exited)
	}
	tr.next(supervisor.Dead)
}

func TestNothingIsStartedAfterTheDeadline(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	tr.start(supervisor.Start{Deadline: boottime.Now().Add(-time.Second)})
	tr.next(supervisor.Overdue)
	tr.next(supervisor.Dead)
	tr.nothingLeft()
}

// A supervisor that does not read, for example a stopped one, delays nothing.
func TestDeadlineKillsTheTreeOfASupervisorThatIsSilent(t *testing.T) {
	tr := prepare(t, forest)
	tr.start(supervisor.Start{Deadline: far()})
	awaitProcesses(t, tr.mark, forestSize)
	if err := tr.guard.Renew(soon()); err != nil {
		t.Fatal(err)
	}
	awaitProcesses(t, tr.mark, 0) // with every event unread
}

func TestFrozenGuardActsOnAPassedDeadlineWhenItGoesOn(t *testing.T) {
	tr := prepare(t, forest)
	tr.start(supervisor.Start{Deadline: far()})
	tr.next(supervisor.Started)
	awaitProcesses(t, tr.mark, forestSize)
	deadline := soon()
	if err := tr.guard.Renew(deadline); err != nil {
		t.Fatal(err)
	}
	thaw := tr.freezeGuard()
	await(t, "the deadline", deadline.Passed)
	thaw()
	tr.next(supervisor.Overdue)
	tr.next(supervisor.Exited)
	tr.next(supervisor.Dead)
	tr.nothingLeft()
}
