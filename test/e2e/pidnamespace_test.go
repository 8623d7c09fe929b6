package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

const inNamespace = "--pid-namespace"

// killBoth kills a berth and its guard with nothing in between. Stopped before,
// neither of them can do anything about the other's end.
func (b *berth) killBoth(guardFirst, stopped bool) {
	b.t.Helper()
	guard := b.guardPID()
	if p, alive := inspect(guard); alive && len(p.args) > 2 && p.args[2] != "" {
		group := p.args[2] // nobody is left to remove its control group
		b.t.Cleanup(func() {
			until(b.t, "the removal of "+group, func() bool {
				err := os.Remove(group)
				return err == nil || errors.Is(err, fs.ErrNotExist)
			})
		})
	}
	pids := []int{b.pid(), guard}
	if guardFirst {
		pids[0], pids[1] = pids[1], pids[0]
	}
	if stopped {
		for _, pid := range []int{b.pid(), guard} { // a berth that runs continues its guard
			stop(b.t, pid)
		}
	}
	first, second := syscall.Kill(pids[0], syscall.SIGKILL), syscall.Kill(pids[1], syscall.SIGKILL)
	// The second may have followed the first by itself, also one that was stopped: the kernel continues what an
	// orphaned process group has stopped (setpgid(2)).
	if first != nil {
		b.t.Fatalf("killing both: %v, %v", first, second)
	}
}

// fault: both-killed-namespace
func TestBothKilledInTheSameInstantThenNothingOfANamespaceIsLeft(t *testing.T) {
	t.Parallel()
	for round := range 12 {
		c := onHost.contest(t, "mutex")
		b := c.run(tree, inNamespace)
		b.awaitRuns(1)
		b.wholeTree()
		b.killBoth(round%2 == 0, round%4 < 2)
		b.wantNothingLeft()
		// A process whose first thread has ended counts as gone, and its files stay
		// open until its last one has.
		c.wantFreeSoon()
	}
}

// fault: both-killed
//
// What is documented as not promised without the flag, and what is promised.
func TestBothKilledInTheSameInstantThenTheFirstProcessIsDead(t *testing.T) {
	t.Parallel()
	for round := range 4 {
		b := onHost.contest(t, "mutex").run(tree)
		b.awaitRuns(1)
		b.wholeTree() // or one that just executes its program is not found below
		first := b.commandPID()
		b.killBoth(round%2 == 0, round < 2)
		until(t, "the end of the first process", func() bool {
			_, alive := inspect(first)
			return !alive
		})
		for _, p := range b.command() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// fault: supervisor-killed, guard-killed
func TestInANamespaceTheTreeDiesWithWhoeverIsKilled(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for who, end := range map[string]func(b *berth){
			"supervisor": func(b *berth) { b.signal(syscall.SIGKILL) },
			"guard": func(b *berth) {
				kill(t, b.guardPID(), syscall.SIGKILL)
				b.wantStatus(137)
			},
			"nobody": func(b *berth) {
				b.signal(syscall.SIGTERM)
				b.wantStatus(143)
			},
		} {
			t.Run(who, func(t *testing.T) {
				c := p.contest(t, "mutex")
				b := c.run(tree, inNamespace, quickStop)
				b.awaitRuns(1)
				if first, alive := inspect(b.commandPID()); !alive || first.parent != b.guardPID() {
					t.Errorf("the logged pid is that of %v", first)
				}
				end(b)
				b.wantNothingLeft()
				c.wantFreeSoon()
			})
		}
	})
}

// fault: supervisor-stopped
func TestStoppedSupervisorsTreeInANamespaceDiesInTime(t *testing.T) {
	t.Parallel()
	c := onBroker.contest(t, "mutex")
	b := c.run(tree, append(shortLease, inNamespace)...)
	b.awaitRuns(1)
	guard := b.guardPID()
	b.signal(syscall.SIGSTOP)
	next := c.run(lookFor(b.mark))
	next.wantStatus(0)
	next.wantNothingSeen(b.pid(), guard)
}

func TestInANamespaceTheExitStatusIsTheCommands(t *testing.T) {
	t.Parallel()
	for script, status := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -KILL $$": 137, "kill -HUP $$": 129} {
		do(t, status, onHost.contest(t, "mutex").args(script, inNamespace)...)
	}
	do(t, 127, "run", "--broker", localURL(t), "--mutex", "m", inNamespace, "--", "/no/such/command")
}

// It is found out at the start, and not when the slot is won.
func TestNamespaceThatCannotBeMadeIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for name, via := range map[string][]string{
		"no capability": {"setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"},
		// A user namespace may make a PID namespace, but may not look at what is
		// hidden from it under /proc.
		"no /proc": {"unshare", "--mount", "sh", "-c",
			`mount -t tmpfs none /proc/irq && exec unshare --user --map-root-user "$0" "$@"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup{via: via}.start(t, "run", "--broker", localURL(t), "--semaphore", "none", inNamespace, "--",
				"true")
			b.wantStatus(78)
			said := lines(b.path("stderr"))
			if len(said) == 0 || !strings.Contains(said[len(said)-1], "--pid-namespace needs CAP_SYS_ADMIN") {
				t.Errorf("it said %q", said)
			}
			b.wantNothingLeft()
		})
	}
}

// Where mounts are shared, as systemd makes them, the guard's /proc must not
// appear outside.
func TestNamespaceDoesNotMountAnythingOutside(t *testing.T) {
	t.Parallel()
	script := fmt.Sprintf(`mount --make-rshared / && cat /proc/self/mountinfo >"$E2E_DIR/before" &&
		%s run --broker %s --mutex m --pid-namespace -- cat /proc/self/mountinfo >"$E2E_DIR/inside" &&
		cat /proc/self/mountinfo >"$E2E_DIR/after"`, binary, localURL(t))
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script)
	dir := t.TempDir()
	cmd.Env = append(ownEnvironment(), "E2E_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := read(dir + "/before")
	if after := read(dir + "/after"); before != after {
		t.Errorf("mounts were\n%s\nand are\n%s", before, after)
	}
	if inside := read(dir + "/inside"); strings.Count(inside, " /proc ") != strings.Count(before, " /proc ")+1 {
		t.Errorf("inside, the mounts are\n%s", inside)
	}
}
