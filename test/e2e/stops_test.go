package e2e

import (
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// fault: stop-signals
//
// What a terminal or a shell sends to berth's group may come at any moment, also
// while berth forks its guard, which is in that group then.
func TestStopSignalsDuringTheStartDoNotHangBerth(t *testing.T) {
	t.Parallel()
	for range 6 {
		b := &berth{t: t, mark: unique("mark"), dir: t.TempDir(), done: make(chan struct{})}
		b.cmd = exec.Command(binary, onHost.contest(t, "mutex").args("exec sleep 1000")...)
		b.cmd.Env = slices.Concat(ownEnvironment(),
			[]string{markVariable + "=" + b.mark, "BERTH_LOG_FORMAT=json", "GORACE=atexit_sleep_ms=0"})
		stderr := create(t, b.path("stderr"))
		defer stderr.Close()
		b.cmd.Stderr = stderr
		// A job of a shell: in a session of its own nothing could stop the group.
		b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		started := make(chan error)
		go b.own(started)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.cleanUp)

		calm := storm(t, b.pid(), syscall.SIGTSTP)
		until(t, "the guard", func() bool {
			return slices.ContainsFunc(marked(b.mark), func(p process) bool { return p.args[0] == guardName })
		})
		calm()
		kill(t, -b.pid(), syscall.SIGCONT)
		b.signal(syscall.SIGTERM)
		b.status()
		b.wantNothingLeft()
	}
}

// storm sends a stop signal to a process group without end, until the function
// that it returns is called. The group's first process is continued: it can be
// stopped before it handles signals.
func storm(t *testing.T, group int, sig syscall.Signal) (calm func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			default:
			}
			for range 20 {
				_ = syscall.Kill(-group, sig)
			}
			_ = syscall.Kill(group, syscall.SIGCONT)
		}
	}()
	calm = sync.OnceFunc(func() {
		close(over)
		<-ended
	})
	t.Cleanup(calm)
	return calm
}
