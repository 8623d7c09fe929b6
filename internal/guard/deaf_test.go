package guard

import (
	"syscall"
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/supervisor"
)

// A supervisor that is stopped reads nothing, which is what the deadline is for.
func TestCommandThatStopsForEverBesideADeafSupervisorIsKilledAtTheDeadline(t *testing.T) {
	useCgroups = false
	defer func() { useCgroups = true }()
	tr := prepare(t, `(kill -TTIN $$; while :; do sleep 0.004; kill -CONT $$; kill -TTIN $$; done 2>/dev/null) & while :; do :; done`)
	tr.start(supervisor.Start{Deadline: far()})
	tr.next(supervisor.Started)
	await(t, "the events that nobody reads", func() bool { return len(tr.guard.events) == cap(tr.guard.events) })
	deadline := boottime.Now().Add(3 * time.Second) // meanwhile the socket fills up
	if err := tr.guard.Renew(deadline); err != nil {
		t.Fatal(err)
	}
	await(t, "the deadline", deadline.Passed)
	awaitProcesses(t, tr.mark, 0)
}

// A directory on a file system that does not answer, for example.
func TestGuardDoesNotWaitForAStartThatHasForkedNothing(t *testing.T) {
	ours, theirs := connected(t)
	h := &helper{conn: &connectionTo{conn: theirs}, terminal: &terminal{fd: -1}, started: true, stage: new(stage), forks: make(chan<- *syscall.ProcAttr, 1)}
	h.fork()
	h.kill()
	in := newInbox(ours)
	for _, want := range []supervisor.GuardEventKind{supervisor.Started, supervisor.Exited, supervisor.Dead} {
		var got supervisor.GuardEvent
		if _, err := in.receive(&got); err != nil || got.Kind != want {
			t.Errorf("%+v is told, error %v; want %s", got, err, want)
		}
	}
	if !h.dead {
		t.Error("the guard goes on")
	}
	if h.stage.leave() {
		t.Error("the command could still be forked")
	}
	h.noteForked(forked{err: errLate}) // of the thread, much later
}
