package guard

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/guardtest"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

func TestDeadlineThatPassesKillsTheTree(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepare(t, guardtest.Forest)
		tr.start(supervisor.Start{Deadline: far()})
		tr.next(wire.Started)
		guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
		deadline := soon()
		if err := tr.guard.Renew(deadline); err != nil {
			t.Fatal(err)
		}
		tr.next(wire.Overdue)
		if !deadline.Passed() {
			t.Error("the tree is killed before its deadline")
		}
		if exited := tr.next(wire.Exited); exited.Status.Signal() != unix.SIGKILL {
			t.Errorf("the first process ended as %+v", exited)
		}
		tr.next(wire.Dead)
		tr.nothingLeft()
	})
}

func TestRenewedDeadlineKillsNothing(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	first := boottime.Now().Add(3 * time.Second) // never comes to pass, or the machine is beyond use
	tr.start(supervisor.Start{Deadline: first})
	tr.next(wire.Started)
	if err := tr.guard.Renew(far()); err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the first deadline", first.Passed)
	// Orders are obeyed in turn, and a deadline that has passed comes before them.
	if err := tr.guard.Signal(unix.SIGTERM, wire.First); err != nil {
		t.Fatal(err)
	}
	if exited := tr.next(wire.Exited); exited.Status.Signal() != unix.SIGTERM {
		t.Errorf("the command ended as %+v", exited)
	}
	tr.next(wire.Dead)
}

func TestNothingIsStartedAfterTheDeadline(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	tr.start(supervisor.Start{Deadline: boottime.Now().Add(-time.Second)})
	tr.next(wire.Overdue)
	tr.next(wire.Dead)
	tr.nothingLeft()
}

// A supervisor that does not read, for example a stopped one, delays nothing.
func TestDeadlineKillsTheTreeOfASupervisorThatIsSilent(t *testing.T) {
	tr := prepare(t, guardtest.Forest)
	tr.start(supervisor.Start{Deadline: far()})
	guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
	if err := tr.guard.Renew(soon()); err != nil {
		t.Fatal(err)
	}
	guardtest.AwaitProcesses(t, tr.mark, 0) // with every event unread
}

func TestFrozenGuardActsOnAPassedDeadlineWhenItGoesOn(t *testing.T) {
	tr := prepare(t, guardtest.Forest)
	tr.start(supervisor.Start{Deadline: far()})
	tr.next(wire.Started)
	guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
	deadline := soon()
	if err := tr.guard.Renew(deadline); err != nil {
		t.Fatal(err)
	}
	thaw := tr.freezeGuard()
	guardtest.Await(t, "the deadline", deadline.Passed)
	thaw()
	tr.next(wire.Overdue)
	tr.next(wire.Exited)
	tr.next(wire.Dead)
	tr.nothingLeft()
}

// A supervisor that is stopped reads nothing, which is what the deadline is for.
func TestDeadlineKillsWhatStopsForEverBesideASilentSupervisor(t *testing.T) {
	useCgroups = false
	defer func() { useCgroups = true }()
	tr := prepare(t,
		`(kill -TTIN $$; while :; do sleep 0.004; kill -CONT $$; kill -TTIN $$; done 2>/dev/null) & while :; do :; done`)
	tr.start(supervisor.Start{Deadline: far()})
	tr.next(wire.Started)
	guardtest.Await(t, "the events that nobody reads",
		func() bool { return len(tr.guard.events) == cap(tr.guard.events) })
	deadline := boottime.Now().Add(3 * time.Second) // meanwhile the socket fills up
	if err := tr.guard.Renew(deadline); err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the deadline", deadline.Passed)
	guardtest.AwaitProcesses(t, tr.mark, 0)
}
