package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

func TestExitStatusOfTheCommandIsTold(t *testing.T) {
	for _, status := range []int{0, 1, 42, 255} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			tr := prepare(t, fmt.Sprintf("exit %d", status))
			tr.run()
			exited := tr.next(wire.Exited)
			if exited.Status.ExitStatus() != status || exited.Left || exited.Orphans || exited.Terminal {
				t.Errorf("exit %d is told as %+v", status, exited)
			}
			if dead := tr.next(wire.Dead); dead.Orphans {
				t.Errorf("the end after exit %d is told as %+v", status, dead)
			}
		})
	}
}

func TestSignalThatEndedTheCommandIsTold(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGUSR1, unix.SIGUSR2} {
		t.Run(sig.String(), func(t *testing.T) {
			tr := prepare(t, "exec sleep 1000")
			tr.run()
			if err := tr.guard.Signal(sig, wire.First); err != nil {
				t.Fatal(err)
			}
			if exited := tr.next(wire.Exited); !exited.Status.Signaled() || exited.Status.Signal() != sig {
				t.Errorf("an end by %s is told as %+v", sig, exited)
			}
			tr.next(wire.Dead)
		})
	}
}

func TestCommandThatCannotBeExecutedIsToldWithItsReason(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, errno := range map[string]syscall.Errno{
		filepath.Join(dir, "none"): unix.ENOENT,
		plain:                      unix.EACCES,
		garbage:                    unix.ENOEXEC,
		dir:                        unix.EACCES,
	} {
		withAndWithoutCgroup(t, func(t *testing.T) {
			tr := prepareSpec(t, Spec{Path: path, Args: []string{path}})
			tr.start(supervisor.Start{})
			if event := tr.next(wire.NotStarted); event.Errno != errno {
				t.Errorf("%s: %v, want %v", path, event.Errno, errno)
			}
			tr.next(wire.Dead)
			awaitNoCgroup(t, tr.guard.cgroup)
		})
	}
}

func TestGuardThatIsNotNeededEnds(t *testing.T) {
	tr := prepare(t, "exit 0")
	pid := tr.guard.pid
	tr.guard.Retire()
	if guardtest.StatusOf(pid) != "" {
		t.Error("the guard is still there after Retire")
	}
	for event := range tr.guard.Events() {
		t.Errorf("a guard that started nothing told %+v", event)
	}
}
