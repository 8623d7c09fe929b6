package guard

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
)

// To read of thousands of processes and threads takes longer than the command may
// live on after its deadline.
func TestSignalForATreeGivesWayToTheDeadline(t *testing.T) {
	process := sleeper(t)
	h := &helper{started: true, deadline: boottime.Now().Add(-time.Second)}
	h.signalTree(unix.SIGSTOP) // of what is below this process
	if status := statusOf(process.Pid); strings.Contains(status, "State:\tT") || strings.Contains(status, "ShdPnd:\t0000000000040000") {
		t.Error("a tree that has to be killed is looked through to be signalled")
	}
	h.deadline = 0
	h.signalTree(unix.SIGSTOP)
	await(t, "the signal", func() bool { return strings.Contains(statusOf(process.Pid), "State:\tT") })
}

func TestWalkCanBeBrokenOff(t *testing.T) {
	mark := below(t, wide, wideSize)
	left := 20 // looks at threads and processes, of some fifty
	found, calm := look(func() bool { left--; return left < 0 })
	if calm || len(found) >= wideSize {
		t.Errorf("it went on and found %d of %d, calm: %v", len(found), len(marked(mark)), calm)
	}
}

// forkAmongThreads has this process have many threads, of which one has a child.
func forkAmongThreads(count int) {
	var blocked [2]int
	_ = unix.Pipe2(blocked[:], unix.O_CLOEXEC)
	for range count {
		go func() {
			var data [1]byte
			_, _ = unix.Read(blocked[0], data[:]) // keeps a thread
		}()
	}
	for p, _ := readProcess(os.Getpid()); p.threads < count; p, _ = readProcess(os.Getpid()) {
		time.Sleep(time.Millisecond)
	}
	forkFromAThread()
}

func TestProcessOfManyThreadsIsVisitedBeforeTheyAreRead(t *testing.T) {
	mark := below(t, roleVar+`="fork among threads" "$GUARD_TEST_SELF" & exec sleep 1000`, 3)
	looks := 0
	var visited []process
	walkDown(nil, func() bool { looks++; return false }, func(p process) {
		visited = append(visited, p)
		if p.threads > manyThreads && looks > 2*manyThreads {
			t.Errorf("%d threads and processes were read before it", looks)
		}
	})
	if len(visited) != 3 || visited[1].threads <= manyThreads {
		t.Errorf("the walk finds %+v", visited)
	}
	var k killer
	await(t, "the end of the tree", func() bool {
		k.pass()
		return len(marked(mark)) == 0
	})
}
