package tree

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/procfs"
)

func TestMain(m *testing.M) {
	guardtest.PlayRole(nil)
	goleak.VerifyTestMain(m)
}

func always() bool { return true }

// killAll kills what is below this process.
func killAll(t *testing.T, tr *Tree, mark string) {
	t.Helper()
	guardtest.Await(t, "the end of the tree", func() bool {
		tr.Kill()
		return len(guardtest.Marked(mark)) == 0
	})
}

// To read of thousands of processes and threads takes longer than the command may
// live on after its deadline.
func TestSignalForATreeGivesWayToTheDeadline(t *testing.T) {
	process := guardtest.Sleeper(t)
	tr := &Tree{Env: procfs.Kernel(), Overdue: always}
	tr.Signal(unix.SIGSTOP, func(int) bool { return true })
	if status := guardtest.StatusOf(process.Pid); strings.Contains(status, "State:\tT") ||
		strings.Contains(status, "ShdPnd:\t0000000000040000") {
		t.Error("a tree that has to be killed is looked through to be signalled")
	}
	tr.Overdue = nil
	tr.Signal(unix.SIGSTOP, func(int) bool { return true })
	guardtest.Await(t, "the signal",
		func() bool { return strings.Contains(guardtest.StatusOf(process.Pid), "State:\tT") })
}

func TestFreezingEndsWithTheDeadline(t *testing.T) {
	guardtest.Sleeper(t)
	tr := &Tree{Env: procfs.Kernel(), Overdue: always}
	tr.Freeze()
	if len(tr.frozen.stopped) != 0 {
		t.Error("a tree that has to be killed is looked through to be stopped")
	}
}

func TestTreeIsKilledWithoutALookAtOtherProcesses(t *testing.T) {
	mark := guardtest.Below(t, guardtest.Wide, guardtest.WideSize)
	env, tables := procfs.Kernel(), 0
	readNames := env.ReadNames
	env.ReadNames = func(dir string) ([]string, error) {
		if dir == "/proc" {
			tables++
		}
		return readNames(dir)
	}
	killAll(t, &Tree{Env: env}, mark)
	if tables != 0 {
		t.Errorf("all of /proc was read %d times", tables)
	}
}

// CONFIG_PROC_CHILDREN can be off.
func TestTreeIsKilledWhereTheKernelListsNoChildren(t *testing.T) {
	mark := guardtest.Below(t, guardtest.Wide, guardtest.WideSize)
	env := procfs.Kernel()
	env.ChildrenFile = "none"
	if got, want := len(env.Descendants(nil)), guardtest.WideSize; got != want {
		t.Errorf("%d processes are found, not %d", got, want)
	}
	if children := env.Children(os.Getpid()); len(children) == 0 {
		t.Error("this process is said to have no children")
	}
	killAll(t, &Tree{Env: env}, mark)
}

func TestExceptedChildrenAreNotKilled(t *testing.T) {
	mark := guardtest.Below(t, "sleep 1000 & exec sleep 1000", 2)
	p, err := procfs.Read(slices.Min(guardtest.Marked(mark)))
	if err != nil {
		t.Fatal(err)
	}
	tr := &Tree{Env: procfs.Kernel(), Except: procfs.Set{p.Pid: p.Start}}
	if this := tr.killOnce(); this.found != 0 || !tr.NoneLeft() {
		t.Errorf("it found %d processes", this.found)
	}
	if left := guardtest.Marked(mark); len(left) != 2 {
		t.Errorf("%v are left", left)
	}
	tr.Except = procfs.Set{p.Pid: p.Start - 1} // another process had the number
	killAll(t, tr, mark)
}

// A process that waits in the kernel, or belongs to another user, is waited for.
func TestPassesBecomeRareWhereNothingEnds(t *testing.T) {
	var k killing
	for range 20 {
		k.progress = true
		if k.rest() > busyPause {
			t.Fatalf("a pass every %s while processes end", k.pause)
		}
	}
	for range 20 {
		k.rest()
	}
	if k.pause != MaxPause || !k.slow() {
		t.Errorf("a pass every %s although nothing ends", k.pause)
	}
	tr := Tree{killing: k}
	tr.NoteEnd()
	if tr.killing.pause != firstPause || tr.killing.slow() {
		t.Errorf("the next pass in %s although something has ended", tr.killing.pause)
	}
}

// What cannot be killed can go on forking.
func TestPassesBecomeRareThoughWhatCannotBeKilledForks(t *testing.T) {
	mark := guardtest.BelowAs(t, "while :; do /bin/true; done", &syscall.Credential{Uid: 65534, Gid: 65534})
	guardtest.Await(t, "it to fork", func() bool { return len(guardtest.Marked(mark)) > 1 })
	slow := make(chan bool)
	go func() {
		runtime.LockOSThread() // for good: the thread may not signal other users' processes any more
		const same = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, 1, same); errno != 0 {
			t.Errorf("cannot become another user; this test needs root: %v", errno)
		}
		tr := &Tree{Env: procfs.Kernel()}
		rare := 0 // in a row
		for over := time.Now().Add(guardtest.Patience); rare < 20 &&
			time.Now().Before(over); time.Sleep(5 * time.Millisecond) {
			tr.Kill()
			rare++
			if !tr.killing.slow() {
				rare = 0
			}
		}
		slow <- rare == 20
	}()
	if !<-slow {
		t.Error("passes follow each other quickly although nothing can be killed")
	}
}
