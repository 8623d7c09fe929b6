package guard

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// forkFromAThread starts a process from a thread that is not the first one, and
// leaves it there.
func forkFromAThread() {
	go func() {
		runtime.LockOSThread()
		_ = exec.Command("/bin/sleep", "1000").Run()
	}()
	select {}
}

// countTables counts how often all of /proc is read by this process.
func countTables(t *testing.T) *int {
	t.Helper()
	var n int
	processTable = func() (processes, error) { n++; return readTable() }
	t.Cleanup(func() { processTable = readTable })
	return &n
}

// below has a script run below this process, without a guard.
func below(t *testing.T, script string, size int) (mark string) {
	t.Helper()
	mark = belowAs(t, script, nil)
	awaitProcesses(t, mark, size)
	return mark
}

// belowAs has it run as somebody else, and does not wait for what it forks.
func belowAs(t *testing.T, script string, login *syscall.Credential) (mark string) {
	t.Helper()
	host, err := NewHost() // which reaps it
	if err != nil {
		t.Fatal(err)
	}
	mark = newMark()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
		Env: append(os.Environ(), markVar+"="+mark, "GUARD_TEST_SELF="+binary),
		Sys: &syscall.SysProcAttr{Credential: login},
	})
	if err != nil {
		host.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range marked(mark) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		awaitProcesses(t, mark, 0)
		host.Close()
		_ = process.Release()
	})
	return mark
}

// wide is a tree with sessions, orphans and a child of a thread.
const (
	wide     = "(" + forest + ") & " + roleVar + `="fork from a thread" exec "$GUARD_TEST_SELF"`
	wideSize = forestSize + 2
)

func TestWalkFindsTheWholeTreeAndNothingElse(t *testing.T) {
	mark := below(t, wide, wideSize)
	tables := countTables(t)
	var found []int
	w := walkDown(nil, nil, func(p process) {
		// A session is 0 where its leader is outside of this PID namespace, as in
		// a container.
		group, _ := unix.Getpgid(p.pid)
		session, _ := unix.Getsid(p.pid)
		if p.group != group || p.session != session || p.start == 0 {
			t.Errorf("it is said to be %+v, and is in group %d, session %d", p, group, session)
		}
		found = append(found, p.pid)
	})
	want := marked(mark)
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) || w.partial {
		t.Errorf("it found %v, partial: %v; want %v", found, w.partial, want)
	}
	if *tables != 0 {
		t.Error("all of /proc was read")
	}
}

func TestTreeIsKilledWithoutALookAtOtherProcesses(t *testing.T) {
	mark := below(t, wide, wideSize)
	tables := countTables(t)
	var k killer
	await(t, "the end of the tree", func() bool {
		k.pass()
		return len(marked(mark)) == 0
	})
	if *tables != 0 {
		t.Errorf("all of /proc was read %d times", *tables)
	}
}

// CONFIG_PROC_CHILDREN can be off.
func TestTreeIsKilledWhereTheKernelListsNoChildren(t *testing.T) {
	mark := below(t, wide, wideSize)
	childrenFile = "none"
	t.Cleanup(func() { childrenFile = "children" })
	if got, want := len(descendants(nil)), wideSize; got != want {
		t.Errorf("%d processes are found, not %d", got, want)
	}
	var k killer
	await(t, "the end of the tree", func() bool {
		k.pass()
		return len(marked(mark)) == 0
	})
}

func TestWalkSparesWhatItIsToldTo(t *testing.T) {
	mark := below(t, "sleep 1000 & exec sleep 1000", 2)
	first := slices.Min(marked(mark))
	p, _ := readProcess(first)
	k := killer{spare: map[int]uint64{first: p.start}}
	if all := k.pass(); all.found != 0 {
		t.Errorf("it found %d processes", all.found)
	}
	if left := marked(mark); len(left) != 2 {
		t.Errorf("%v are left", left)
	}
	k = killer{spare: map[int]uint64{first: p.start - 1}} // somebody else had the number
	await(t, "the end of the tree", func() bool {
		k.pass()
		return len(marked(mark)) == 0
	})
}

// One that waits in the kernel, or belongs to somebody else, is waited for.
func TestPassesBecomeRareWhereNothingEnds(t *testing.T) {
	var k killer
	for range 20 {
		if k.rest(true) > busyPause {
			t.Fatalf("a pass every %s while processes end", k.pause)
		}
	}
	for range 20 {
		k.rest(false)
	}
	if k.pause != longestPause || !k.slow() {
		t.Errorf("a pass every %s although nothing ends", k.pause)
	}
	k.hurry()
	if pause := k.rest(true); pause != firstPause || k.slow() {
		t.Errorf("the next pass in %s although something has ended", pause)
	}
}

// What cannot be killed can go on forking.
func TestPassesBecomeRareThoughWhatCannotBeKilledForks(t *testing.T) {
	mark := belowAs(t, "while :; do /bin/true; done", &syscall.Credential{Uid: 65534, Gid: 65534})
	await(t, "it to fork", func() bool { return len(marked(mark)) > 1 })
	slow := make(chan bool)
	go func() {
		runtime.LockOSThread() // for good: the thread may not signal other users' processes any more
		const same = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, 1, same); errno != 0 {
			t.Errorf("cannot become somebody else; this test needs root: %v", errno)
		}
		var k killer
		rare := 0 // in a row
		for over := time.Now().Add(patience); rare < 20 && time.Now().Before(over); time.Sleep(5 * time.Millisecond) {
			k.pass()
			k.rest(false)
			rare++
			if !k.slow() {
				rare = 0
			}
		}
		slow <- rare == 20
	}()
	if !<-slow {
		t.Error("passes follow each other quickly although nothing can be killed")
	}
}
