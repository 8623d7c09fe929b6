package guard

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"berth/supervisor"
)

// The directory may be on a network file system that has gone, and come back.
func TestNothingIsForkedThatIsToBeDeadByNow(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(elsewhere) // as a guard
	var late stage     // which somebody has left
	forks, result := make(chan *syscall.ProcAttr, 1), make(chan forked, 1)
	forks <- &syscall.ProcAttr{}
	close(forks)
	go forkOn(here, program{path: "/bin/true", args: []string{"true"}, vars: noAddress}, 0, &late, forks, result)
	f := <-result
	if !errors.Is(f.err, errLate) || f.pid != 0 {
		t.Fatalf("%+v", f)
	}
	ours, theirs := connected(t)
	h := &helper{conn: &connectionTo{conn: theirs}, terminal: &terminal{fd: -1}, started: true, killing: true, forking: true}
	h.noteForked(f)
	for _, want := range []supervisor.GuardEventKind{supervisor.Started, supervisor.Exited, supervisor.Dead} {
		var got supervisor.GuardEvent
		if _, err := newInbox(ours).receive(&got); err != nil || got.Kind != want {
			t.Fatalf("%+v, %v came instead of %q", got, err, want)
		}
	}
	if !h.dead {
		t.Error("the guard goes on")
	}
}
