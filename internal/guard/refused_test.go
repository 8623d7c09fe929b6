package guard

import (
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
)

// another is a user whom withoutKill may not signal.
var another = &syscall.Credential{Uid: 65534, Gid: 65534}

// withoutKill has guards that are launched meanwhile not be able to signal other users' processes. The control group
// would kill them all the same.
func withoutKill(t *testing.T, launch func()) {
	t.Helper()
	useCgroups = false
	t.Cleanup(func() { useCgroups = true })
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_KILL, 0, 0, 0); err != nil {
			t.Errorf("cannot drop a capability; this test needs root: %v", err)
			return
		}
		launch()
	}()
	<-done
	if t.Failed() {
		t.FailNow()
	}
}

func TestProcessThatMayNotBeSignalledIsToldAndKeepsTheTreeAlive(t *testing.T) {
	var tr *command
	withoutKill(t, func() {
		tr = prepareSpec(t, Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Credential: another})
	})
	first := tr.run()
	if err := tr.guard.Signal(unix.SIGTERM, wire.Tree); err != nil {
		t.Fatal(err)
	}
	if refused := tr.next(wire.Refused); refused.Pid != first {
		t.Errorf("it is told as %+v, but the process is %d", refused, first)
	}
	for range 2 { // it answers each time, though it can do nothing but wait
		if err := tr.guard.Kill(); err != nil {
			t.Fatal(err)
		}
		tr.next(wire.Killing)
	}
	_ = unix.Kill(first, unix.SIGUSR1) // this process may
	if exited := tr.next(wire.Exited); exited.Status.Signal() != unix.SIGUSR1 {
		t.Errorf("the command ended as %+v", exited)
	}
	tr.next(wire.Dead)
}
