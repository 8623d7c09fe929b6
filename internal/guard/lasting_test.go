package guard

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/wire"
)

// A debugger that is stopped, for example. Nothing of what it keeps runs.
func TestDeadProcessThatIsKeptByItsTracerDoesNotKeepTheTreeAlive(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		size int
	}{
		"the first":    {Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 & wait"}}, 2},
		"the only one": {Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}}, 1},
		"with many threads": {Spec{Path: "/proc/self/exe", Args: []string{"threads"},
			Env: []string{guardtest.RoleVar + "=fork among threads"}}, 2},
		"in its own namespace": {Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Namespace: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tracer := guardtest.NewTracer(t)
			tr := prepareSpec(t, c.spec)
			first := tr.run()
			guardtest.AwaitProcesses(t, tr.mark, c.size)
			tracer.Keep(first, guardtest.KeptDead)
			if err := tr.guard.Kill(); err != nil {
				t.Fatal(err)
			}
			if told := tr.next(wire.Lasting); told.Pid != first || told.Left ||
				!strings.Contains(told.About, "state Z, traced by process ") {
				t.Errorf("of process %d it tells %+v", first, told)
			}
			if e := tr.next(wire.Exited); e.Left || e.Status != syscall.WaitStatus(unix.SIGKILL) {
				t.Errorf("the command's end is told as %+v", e)
			}
			tr.next(wire.Dead)
			tr.nothingLeft()
			select {
			case e, open := <-tr.guard.Events():
				if open {
					t.Errorf("%+v is told after the end", e)
				}
			case <-time.After(guardtest.Patience):
				t.Error("the guard is waited for")
			}
		})
	}
}

func TestDeadGuardsOrphansThatAreKeptDeadAreToldAndNotWaitedFor(t *testing.T) {
	for name, namespace := range map[string]bool{"below berth": false, "in their own namespace": true} {
		t.Run(name, func(t *testing.T) {
			tracer := guardtest.NewTracer(t)
			tr := prepareSpec(t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 & wait"}, Namespace: namespace})
			first := tr.run()
			guardtest.AwaitProcesses(t, tr.mark, 2)
			tracer.Keep(first, guardtest.KeptDead)
			tr.guard.Abandon()
			if told := tr.next(wire.Lasting); told.Pid != first || told.Left {
				t.Errorf("of process %d it tells %+v", first, told)
			}
			tr.orphansDie()
		})
	}
}

// It stands for one that waits in the kernel for a disk that is gone.
func TestProcessThatKILLDoesNotEndIsTold(t *testing.T) {
	for name, dies := range map[string]bool{"by its guard": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			tracer := guardtest.NewTracer(t)
			tr := prepare(t, "sleep 1000 & wait")
			first := tr.run()
			guardtest.AwaitProcesses(t, tr.mark, 2)
			tracer.Keep(first, guardtest.KeptAlive)
			if dies {
				tr.guard.Abandon()
			} else if err := tr.guard.Kill(); err != nil {
				t.Fatal(err)
			}
			told := tr.next(wire.Lasting)
			if told.Pid != first || !told.Left || !strings.Contains(told.About, "sh, state t in ") {
				t.Errorf("of process %d it tells %+v", first, told)
			}
			tracer.End()
			tr.next(wire.Exited)
			tr.next(wire.Dead)
		})
	}
}
