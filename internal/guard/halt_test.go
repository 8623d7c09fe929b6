package guard

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/procfs"
	"berth/internal/guard/wire"
)

// A guard that stays stopped would keep no deadline, and tell nothing.
func TestStoppedGuardGoesOn(t *testing.T) {
	for name, namespace := range map[string]bool{"without a namespace": false, "in a namespace": true} {
		t.Run(name, func(t *testing.T) {
			tr := prepareSpec(t, Spec{Path: "/bin/sh",
				Args: []string{"sh", "-c", `trap "exit 7" TERM; while :; do sleep 0.01; done`}, Namespace: namespace})
			first := tr.run()
			awaitTrap(t, first)
			for n := range 3 {
				if err := unix.Kill(tr.guard.pid, unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					tr.next(wire.Halted) // and not again
				}
			}
			if err := unix.Kill(first, unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 7 {
				t.Errorf("the command's end is told as %+v", exited)
			}
			if !namespace { // there, what else it runs is killed with it
				_ = tr.guard.Kill()
			}
			tr.next(wire.Dead)
		})
	}
}

// awaitTrap waits until a shell handles TERM.
func awaitTrap(t *testing.T, pid int) {
	t.Helper()
	guardtest.Await(t, "the command to handle TERM", func() bool {
		_, caught, _ := strings.Cut(guardtest.StatusOf(pid), "SigCgt:\t")
		mask, _ := strconv.ParseUint(strings.SplitN(caught, "\n", 2)[0], 16, 64)
		return mask&(1<<(unix.SIGTERM-1)) != 0
	})
}

// freezeGuard keeps the guard from doing anything, until thaw is called or it is
// killed. Nobody is told, as with STOP, of a control group that is frozen.
func (tr *command) freezeGuard() (thaw func()) {
	tr.t.Helper()
	dir := filepath.Join(ownCgroup(), "test-"+rand.Text())
	if err := os.Mkdir(dir, 0o755); err != nil {
		tr.t.Fatal(err)
	}
	write := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			tr.t.Error(err)
		}
	}
	thaw = func() { write("cgroup.freeze", "0") }
	tr.t.Cleanup(func() {
		thaw()
		if !tr.dead {
			tr.guard.Abandon()
		}
		<-tr.guard.gone // a group with a process in it cannot be removed
		_ = os.Remove(dir)
	})
	write("cgroup.procs", strconv.Itoa(tr.guard.pid))
	write("cgroup.freeze", "1")
	guardtest.Await(tr.t, "the guard to be frozen", func() bool {
		events, _ := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		return strings.Contains(string(events), "frozen 1")
	})
	return thaw
}

func TestKernelWithoutPidfdIsRefused(t *testing.T) {
	kernel := procfs.Kernel()
	kernel.OpenPidfd = func(int, int) (int, error) { return -1, unix.ENOSYS }
	if host, err := newHost(env{kernel, newCgroup}); err == nil {
		host.Close()
		t.Error("a Host was made")
	}
}
