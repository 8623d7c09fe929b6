package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fault: supervisor-stopped-local
//
// What the guard has said meanwhile counts, however long it seems to have been silent.
func TestBerthStoppedWhileTheCommandIsStartedGoesOnWithIt(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"without a namespace": nil, "in a namespace": {inNamespace}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := onHost.contest(t, "mutex")
			holder := c.run(plain)
			holder.awaitRuns(1)
			b, guard, thaw := c.runFrozen(`echo >>"$E2E_DIR/runs"
				while [ ! -e "$E2E_DIR/end" ]; do sleep 0.01; done; exit 7`, flags...)
			b.awaitLog("waiting: held by others")
			before := unread(t, guard) // what it is for
			holder.signal(syscall.SIGTERM)
			until(t, "the order to start", func() bool { return unread(t, guard) > before })
			stop(t, b.pid())
			over := time.Now().Add(stoppedFor)
			thaw()
			b.awaitRuns(1)
			until(t, "the end of berth's patience", func() bool { return time.Now().After(over) })
			b.signal(syscall.SIGCONT)
			b.awaitLog("command started")
			if err := os.WriteFile(filepath.Join(b.dir, "end"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b.wantStatus(7)
			if n := len(b.runs()); n != 1 {
				t.Errorf("the command was run %d times", n)
			}
		})
	}
}

// stoppedFor is longer than berth waits for anything that its guard has to say.
const stoppedFor = 11 * time.Second

// runFrozen is run, with a guard that is kept from doing anything: from the beginning, so that it has mounted nothing.
func (c contest) runFrozen(script string, flags ...string) (b *berth, guard int, thaw func()) {
	c.t.Helper()
	for range 10 {
		b = c.run(script, flags...)
		guard, thaw = b.freezeGuard(func() int { return b.youngGuard(slices.Contains(flags, inNamespace)) })
		if procMounts(guard) == procMounts(os.Getpid()) {
			return b, guard, thaw
		}
		thaw() // it came too late
		b.signal(syscall.SIGTERM)
		b.status()
	}
	c.t.Fatal("each guard is faster than this test")
	return nil, 0, nil
}

func procMounts(pid int) int {
	return strings.Count(read(fmt.Sprintf("/proc/%d/mountinfo", pid)), " /proc ")
}

// freezeGuard keeps the guard from doing anything, as soon as find finds it, until thaw is called or it is killed.
func (b *berth) freezeGuard(find func() int) (guard int, thaw func()) {
	b.t.Helper()
	group := filepath.Join(ownGroup(b.t), b.mark)
	write := func(file, value string) {
		if err := os.WriteFile(filepath.Join(group, file), []byte(value), 0o644); err != nil {
			b.t.Error(err)
		}
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		b.t.Fatalf("%v; these tests need root and a cgroup v2 hierarchy", err)
	}
	thaw = func() { write("cgroup.freeze", "0") }
	b.t.Cleanup(func() {
		thaw()
		_ = b.cmd.Process.Kill()
		until(b.t, "the removal of "+group, func() bool { return os.Remove(group) == nil })
	})
	write("cgroup.freeze", "1")
	for end := time.Now().Add(patience); guard == 0; guard = find() { // without a pause, which may be too long
		if time.Now().After(end) {
			b.t.Fatal("there is no guard")
		}
	}
	write("cgroup.procs", strconv.Itoa(guard))
	until(b.t, "the guard to be frozen",
		func() bool { return strings.Contains(read(filepath.Join(group, "cgroup.events")), "frozen 1") })
	return guard, thaw
}

// youngGuard returns berth's child if that executes the guard's program, in a PID namespace of its own or not, 0 if it does
// not yet.
func (b *berth) youngGuard(ofItsOwn bool) int {
	namespace := func(pid any) string {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%v/ns/pid", pid))
		return link
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.pid()))
	for _, list := range lists {
		for _, child := range strings.Fields(read(list)) {
			if pid, _ := strconv.Atoi(child); strings.HasPrefix(read("/proc/"+child+"/cmdline"), guardName) &&
				(namespace(pid) != namespace("self")) == ofItsOwn {
				return pid
			}
		}
	}
	return 0
}

// ownGroup returns the directory of the tests' control group.
func ownGroup(t testing.TB) string {
	t.Helper()
	_, path, found := strings.Cut("\n"+read("/proc/self/cgroup"), "\n0::")
	if !found {
		t.Fatal("these tests need a cgroup v2 hierarchy")
	}
	path, _, _ = strings.Cut(path, "\n")
	for line := range strings.Lines(read("/proc/self/mounts")) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			return filepath.Join(fields[1], path)
		}
	}
	t.Fatal("no cgroup v2 hierarchy is mounted")
	return ""
}

// unread returns how many bytes of what berth has told its guard that has not read yet.
func unread(t testing.TB, guard int) int {
	t.Helper()
	process, err := unix.PidfdOpen(guard, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	p, _ := inspect(guard)
	conn, err := strconv.Atoi(p.args[1])
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdGetfd(process, conn, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
