package guard

import (
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/launch"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// slowProgram returns a program that cannot be opened to be executed before open
// is called: somebody has a lease of its file (fcntl(2), F_SETLEASE).
func slowProgram(t *testing.T) (path string, open func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("cannot take a lease of a file in %s: %v", filepath.Dir(path), err)
	}
	return path, func() { file.Close() }
}

func TestProgramThatIsSlowToBeReadIsStarted(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		path, open := slowProgram(t)
		tr := prepareSpec(t, Spec{Path: path, Args: []string{path}})
		tr.start(supervisor.Start{Deadline: far()})
		guardtest.AwaitProcesses(t, tr.mark, 0)
		open()
		tr.next(wire.Started)
		if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 7 {
			t.Errorf("the command ended as %+v", exited)
		}
		tr.next(wire.Dead)
	})
}

// It must not run later, when its file is there after all.
func TestProgramThatIsSlowToBeReadIsKilled(t *testing.T) {
	for name, end := range map[string]func(*command){
		"by its deadline": func(tr *command) {
			if err := tr.guard.Renew(soon()); err != nil {
				t.Fatal(err)
			}
			tr.next(wire.Overdue)
		},
		"by an order": func(tr *command) {
			if err := tr.guard.Kill(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutCgroup(t, func(t *testing.T) {
				path, _ := slowProgram(t)
				// The least that Go's runtime can be given: one processor, and collections all the time.
				t.Setenv("GOMAXPROCS", "1")
				t.Setenv("GOGC", "1")
				tr := prepareSpec(t, Spec{Path: path, Args: []string{path}})
				tr.start(supervisor.Start{Deadline: far()})
				end(tr)
				tr.next(wire.Started)
				if exited := tr.next(wire.Exited); exited.Status.Signal() != unix.SIGKILL {
					t.Errorf("it ended as %+v", exited)
				}
				tr.next(wire.Dead)
			})
		})
	}
}

// A berth that launches a guard has other things to do.
func TestGuardThatIsSlowToBeginIsNotWaitedFor(t *testing.T) {
	for name, namespace := range map[string]bool{"without a namespace": false, "in a namespace": true} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv(stallVar, fifo) // for the guard
			tr := prepareSpec(t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}, Namespace: namespace})
			if err := os.WriteFile(fifo, nil, 0); err != nil { // when the guard reads
				t.Fatal(err)
			}
			tr.run()
			if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 7 {
				t.Errorf("the command's end is told as %+v", exited)
			}
			tr.next(wire.Dead)
		})
	}
}

// It may be killed at any time, by an operator or for want of memory.
func TestGuardThatWasForkedAheadAndDiesIsReplaced(t *testing.T) {
	for name, before := range map[string]bool{"before there is a host": true, "beside it": false} {
		t.Run(name, func(t *testing.T) {
			ahead, err := launch.Fork(launch.Standard(), 0)
			if err != nil {
				t.Fatal(err)
			}
			kill := func() {
				if err := unix.Kill(ahead.PID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			host, err := newTestHost()
			if err != nil {
				t.Fatal(err)
			}
			host.mu.Lock()
			host.ahead = ahead
			host.mu.Unlock()
			if before {
				signal.Stop(host.children)
				kill()
				var dead unix.Siginfo
				if err := unix.Waitid(unix.P_PID, ahead.PID, &dead, unix.WEXITED|unix.WNOWAIT, nil); err != nil && err != unix.ECHILD {
					t.Fatal(err)
				}
				signal.Notify(host.children, unix.SIGCHLD)
				host.children <- unix.SIGCHLD // as newHost does
			} else {
				kill()
			}
			guardtest.Await(t, "the guard that was forked ahead is reaped", func() bool {
				host.mu.Lock()
				defer host.mu.Unlock()
				return host.ahead == nil
			})
			tr := launchWith(t, host, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}})
			tr.run()
			if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 7 {
				t.Errorf("the command's end is told as %+v", exited)
			}
			tr.next(wire.Dead)
		})
	}
}
