package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/procfs"
	"berth/internal/guard/wire"
)

// prepareInNamespace launches a guard in a PID namespace of its own.
func prepareInNamespace(t *testing.T, script string) *command {
	t.Helper()
	return prepareSpec(t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Namespace: true})
}

func TestCommandInANamespaceEndsAsItDoesWithout(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepareInNamespace(t, `exit 42`)
		tr.run()
		if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 42 || exited.Left {
			t.Errorf("exit 42 is told as %+v", exited)
		}
		tr.next(wire.Dead)
	})
}

func TestCommandInANamespaceIsToldOfByItsOuterNumber(t *testing.T) {
	dir := t.TempDir()
	tr := prepareInNamespace(t,
		fmt.Sprintf(`echo $$ >%[1]s/own; echo /proc/[0-9]* >%[1]s/all.part; mv %[1]s/all.part %[1]s/all; exec sleep 1000`, dir))
	first := tr.run()
	// A process that executes has no environment for a moment.
	guardtest.Await(t, fmt.Sprintf("process %d, which the command is said to be", first), func() bool {
		return slices.Contains(guardtest.Marked(tr.mark), first)
	})
	guardtest.Await(t, "what the command sees", func() bool { return guardtest.Exists(filepath.Join(dir, "all")) })
	own, _ := os.ReadFile(filepath.Join(dir, "own"))
	if number, _ := strconv.Atoi(strings.TrimSpace(string(own))); number == first ||
		number != procfs.InnermostPid(first) {
		t.Errorf("the command's number is %d outside and %d inside", first, number)
	}
	all, _ := os.ReadFile(filepath.Join(dir, "all"))
	if seen := strings.Fields(string(all)); len(seen) != 2 || seen[0] != "/proc/1" {
		t.Errorf("the command sees %q, not the guard and itself", seen)
	}
}

func TestTreeInANamespaceIsKilled(t *testing.T) {
	for name, end := range map[string]func(tr *command){
		"when told": func(tr *command) {
			_ = tr.guard.Kill()
			tr.next(wire.Exited)
			tr.next(wire.Dead)
		},
		"at the deadline": func(tr *command) {
			_ = tr.guard.Renew(soon())
			tr.next(wire.Overdue)
			tr.next(wire.Exited)
			tr.next(wire.Dead)
		},
		"when the supervisor is gone": func(tr *command) {
			tr.guard.conn.Close()
			<-tr.guard.gone
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutCgroup(t, func(t *testing.T) {
				tr := prepareInNamespace(t, guardtest.Forest)
				tr.run()
				guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
				end(tr)
				tr.nothingLeft()
			})
		})
	}
}

// The kernel sees to it, with nobody of berth's alive.
func TestTreeInANamespaceIsDeadWhenItsGuardIs(t *testing.T) {
	tr := prepareInNamespace(t, guardtest.Forest)
	tr.run()
	guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
	tr.host.mu.Lock() // nobody is reaped, and nothing that falls to us is killed
	err := unix.Kill(tr.guard.pid, unix.SIGKILL)
	guardtest.AwaitProcesses(t, tr.mark, 0)
	tr.host.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	tr.orphansDie()
}

func TestTreeInANamespaceIsFrozen(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepareInNamespace(t, guardtest.Forest)
		tr.run()
		guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
		tr.freeze()
		_ = tr.guard.Thaw()
		guardtest.Await(t, "the tree to go on", func() bool { return !tr.frozen() })
	})
}

func TestNamespaceOfAGuardLeavesTheMountsHereAlone(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	tr := prepareInNamespace(t, `exit 0`)
	tr.run()
	if after, _ := os.ReadFile("/proc/self/mountinfo"); string(after) != string(before) {
		t.Errorf("mounts were\n%s\nand are\n%s", before, after)
	}
}

func TestOnlyAMissingCapabilityIsReportedAsOne(t *testing.T) {
	for err, missing := range map[unix.Errno]bool{unix.EPERM: true, unix.EAGAIN: false, unix.ENOMEM: false,
		unix.ENOSPC: false} {
		got := notForked(err, true)
		if !errors.Is(got, err) || errors.Is(got, ErrNamespace) != missing {
			t.Errorf("%v is reported as %v", err, got)
		}
	}
}

func TestNamespaceWithoutProcIsNotBlamedOnACapability(t *testing.T) {
	for errno, says := range map[unix.Errno]string{unix.EPERM: "CAP_SYS_ADMIN", unix.EACCES: "AppArmor",
		unix.EINVAL: "chroot"} {
		got := notMounted(errno)
		if !errors.Is(got, ErrNamespace) || !errors.Is(got, errno) || !strings.Contains(got.Error(), says) {
			t.Errorf("%v is reported as %v", errno, got)
		}
		if says != "CAP_SYS_ADMIN" && strings.Contains(got.Error(), "CAP_SYS_ADMIN") {
			t.Errorf("%v is reported as %v", errno, got)
		}
	}
}
