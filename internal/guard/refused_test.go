package guard

import (
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/supervisor"
)

// prepareWithoutKill launches a guard that may not signal other users' processes,
// for a command of another user. The control group would kill it all the same.
func prepareWithoutKill(t *testing.T, script string) *command {
	t.Helper()
	useCgroups = false
	t.Cleanup(func() { useCgroups = true })
	prepared := make(chan *command)
	go func() {
		defer close(prepared)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_KILL, 0, 0, 0); err != nil {
			t.Errorf("cannot drop a capability; this test needs root: %v", err)
			return
		}
		prepared <- prepareSpec(t, Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", script}, Credential: &syscall.Credential{Uid: 65534,
				Gid: 65534},
		})
	}()
	tr := <-prepared
	if tr == nil {
		t.FailNow()
	}
	return tr
}

func TestProcessThatMayNotBeSignalledIsToldAndKeepsTheTreeAlive(t *testing.T) {
	tr := prepareWithoutKill(t, "exec sleep 1000")
	first := tr.run()
	if err := tr.guard.Signal(unix.SIGTERM, supervisor.Tree); err != nil {
		t.Fatal(err)
	}
	if refused := tr.next(supervisor.Refused); refused.Pid != first {
		t.Errorf("it is told as %+v, but the process is %d", refused, first)
	}
	for range 2 { // it answers each time, though it can do nothing but wait
		if err := tr.guard.Kill(); err != nil {
			t.Fatal(err)
		}
		tr.next(supervisor.Killing)
	}
	_ = unix.Kill(first, unix.SIGUSR1) // this process may
	if exited := tr.next(supervisor.Exited); exited.Status.Signal() != unix.SIGUSR1 {
		t.Errorf("the command ended as %+v", exited)
	}
	tr.next(supervisor.Dead)
}
