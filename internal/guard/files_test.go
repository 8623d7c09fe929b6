package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// locked returns a file with a lock that lasts as long as somebody has the file
// open, and a function that reports whether the lock is there.
func locked(t *testing.T) (file *os.File, isLocked func() bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return file, func() bool {
		other, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		return unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
	}
}

func TestFilesHandedOverStayOpenUntilTheTreeIsDead(t *testing.T) {
	tr := prepare(t, guardtest.Forest)
	file, isLocked := locked(t)
	tr.start(supervisor.Start{Files: []*os.File{file}})
	tr.next(wire.Started)
	guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
	file.Close()
	if !isLocked() {
		t.Error("the lock is gone while the command runs")
	}
	if err := tr.guard.Kill(); err != nil {
		t.Fatal(err)
	}
	guardtest.Await(t, "the lock's end", func() bool { return !isLocked() })
	tr.nothingLeft()
}

// The supervisor has the file open as well, and may be slow.
func TestFilesOfTheLastRunAreUnlockedWhenTheTreeIsDead(t *testing.T) {
	for name, last := range map[string]bool{"the last run": true, "another one follows": false} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutCgroup(t, func(t *testing.T) {
				tr := prepare(t, `sleep 1000 & setsid sleep 1000 & exit 7`)
				file, isLocked := locked(t)
				defer file.Close()
				tr.start(supervisor.Start{Files: []*os.File{file}, Last: last})
				tr.next(wire.Started)
				if exited := tr.next(wire.Exited); !exited.Left || !isLocked() {
					t.Errorf("with %+v the file is locked: %t", exited, isLocked())
				}
				if err := tr.guard.Kill(); err != nil {
					t.Fatal(err)
				}
				tr.next(wire.Dead)
				tr.nothingLeft()
				if isLocked() == last {
					t.Errorf("the file is locked when the tree is said to be dead: %t", !last)
				}
			})
		})
	}
}

func TestFilesAreUnlockedBeforeTheEndIsTold(t *testing.T) {
	tr := prepare(t, `exit 7`)
	file, isLocked := locked(t)
	defer file.Close()
	tr.start(supervisor.Start{Files: []*os.File{file}, Last: true})
	tr.next(wire.Started)
	if exited := tr.next(wire.Exited); exited.Left || isLocked() {
		t.Errorf("with %+v the file is locked: %t", exited, isLocked())
	}
	tr.next(wire.Dead)
}

func TestCommandInheritsNeitherFilesNorConnection(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	file, _ := locked(t)
	defer file.Close()
	tr.start(supervisor.Start{Files: []*os.File{file}})
	first := tr.next(wire.Started).Pid
	guardtest.Await(t, "the program", func() bool { return len(guardtest.Marked(tr.mark)) == 1 })
	own := inheritable(t)
	var more []string
	defer func() {
		if t.Failed() {
			t.Errorf("the command has %q", more)
		}
	}()
	// What it opens itself, such as libraries and locales, it closes again.
	guardtest.Await(t, "the command to have what the user gave it, and no more", func() bool {
		more = nil
		for fd, target := range descriptors(t, first) {
			if fd > 2 && own[fd] != target {
				more = append(more, fmt.Sprintf("%d: %s", fd, target))
			}
		}
		return len(more) == 0
	})
}

func TestUsersOwnDescriptorsReachTheCommandAtTheirNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const number = 57 // not in use by this process; low ones are taken by Go's runtime
	if err := unix.Dup3(int(file.Fd()), number, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(number)
	tr := prepare(t, `exec sleep 1000`)
	first := tr.run()
	guardtest.Await(t, "the program", func() bool { return len(guardtest.Marked(tr.mark)) == 1 })
	if got := descriptors(t, first)[number]; got != path {
		t.Errorf("descriptor %d is %q for the command, want %q", number, got, path)
	}
}

// descriptors returns what the descriptors of a process lead to.
func descriptors(t *testing.T, pid int) map[int]string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[int]string)
	for _, entry := range entries {
		var fd int
		_, _ = fmt.Sscan(entry.Name(), &fd)
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil {
			found[fd] = target
		}
	}
	return found
}

// inheritable returns the descriptors of this process that every child inherits:
// they came from the process that started the tests.
func inheritable(t *testing.T) map[int]string {
	t.Helper()
	found := descriptors(t, os.Getpid())
	for fd := range found {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			delete(found, fd)
		}
	}
	return found
}

func TestCommandHasTheEnvironmentItIsGiven(t *testing.T) {
	out := filepath.Join(t.TempDir(), "env")
	tr := prepare(t, `env >`+out)
	tr.start(supervisor.Start{Vars: []string{"BERTH_SLOT=3", "BERTH_NAME=a b\nc"}})
	tr.next(wire.Started)
	tr.next(wire.Exited)
	tr.next(wire.Dead)
	env, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BERTH_SLOT=3\n", "BERTH_NAME=a b\nc\n", "PATH=" + os.Getenv("PATH") + "\n"} {
		if !strings.Contains(string(env), want) {
			t.Errorf("%q is not in the environment", want)
		}
	}
}
