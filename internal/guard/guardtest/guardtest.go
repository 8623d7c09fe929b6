// Package guardtest is what tests of the guard's packages begin with: trees of processes that are marked ([NewMark],
// [Below]), so that none is lost sight of ([Marked]), and waiting for them ([Await], [AwaitProcesses]). Tests alone
// import it.
package guardtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/parent"
)

const (
	// MarkVar marks every process of one test's command.
	MarkVar = "GUARD_TEST_MARK"

	// RoleVar makes a test binary another program; see PlayRole.
	RoleVar = "GUARD_TEST_ROLE"

	// SelfVar is the path of the test binary, for scripts of Below.
	SelfVar = "GUARD_TEST_SELF"

	// Patience is long enough for a busy machine; nothing waits that long
	// unless it fails.
	Patience = 20 * time.Second
)

// Forest is a command that uses every way out of its first process's reach.
const (
	Forest = `trap "" TERM INT HUP
	sleep 1000 & sleep 1000 & kill -STOP $!
	sh -c "setsid sh -c 'sleep 1000 & exec sleep 1000' &"
	sleep 1000; true`
	ForestSize = 6
)

// Wide is a tree with sessions, orphans and a child of a thread.
const (
	Wide     = "(" + Forest + ") & " + RoleVar + `="fork from a thread" exec "$` + SelfVar + `"`
	WideSize = ForestSize + 2
)

func init() {
	if os.Getenv(RoleVar) != "" {
		runtime.LockOSThread() // so that TestMain is on the first thread
	}
}

// PlayRole is called by TestMain. It does not return in a process that RoleVar makes
// something else.
func PlayRole(others map[string]func()) {
	roles := map[string]func(){
		"without first thread": loseFirstThread,
		"fork from a thread":   forkFromAThread,
		"fork among threads":   forkAmongThreads,
		"tracer":               trace,
	}
	role := os.Getenv(RoleVar)
	play := roles[role]
	if others[role] != nil {
		play = others[role]
	}
	switch {
	case role == "":
		return
	case play == nil:
		fmt.Fprintf(os.Stderr, "unknown role %q\n", role)
	default:
		play()
	}
	os.Exit(2)
}

// loseFirstThread goes on in another thread when its first one has ended, so
// that the process looks like a dead one in /proc/PID/stat.
func loseFirstThread() {
	time.AfterFunc(time.Hour, func() { os.Exit(0) })
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// forkFromAThread starts a process from a thread that is not the first one, and
// leaves it there.
func forkFromAThread() {
	go func() {
		runtime.LockOSThread()
		_ = exec.Command("/bin/sleep", "1000").Run()
	}()
	select {}
}

// forkAmongThreads has this process have many threads, of which one has a child.
func forkAmongThreads() {
	const count = 200
	var blocked [2]int
	_ = unix.Pipe2(blocked[:], unix.O_CLOEXEC)
	for range count {
		go func() {
			var data [1]byte
			_, _ = unix.Read(blocked[0], data[:]) // keeps a thread
		}()
	}
	for threads := 0; threads < count; time.Sleep(time.Millisecond) {
		entries, _ := os.ReadDir("/proc/self/task")
		threads = len(entries)
	}
	forkFromAThread()
}

var marks atomic.Int64

// NewMark returns a value for MarkVar.
func NewMark() string { return fmt.Sprintf("%d-%d", os.Getpid(), marks.Add(1)) }

// Marked returns the living processes of a command. It looks at the environment
// of every process of this host, so it also finds one that has left the tree.
func Marked(mark string) []int {
	variable := []byte("\x00" + MarkVar + "=" + mark + "\x00")
	has := func(file string) bool {
		env, _ := os.ReadFile(file) // fails, or is empty, for a dead one
		return bytes.Contains(append([]byte{0}, env...), variable)
	}
	var pids []int
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := "/proc/" + entry.Name()
		environs := []string{dir + "/environ"}
		// Other threads speak for a process whose first one has ended.
		if stat, _ := os.ReadFile(dir + "/stat"); bytes.Contains(stat, []byte(") Z ")) {
			environs, _ = filepath.Glob(dir + "/task/*/environ")
		}
		if slices.ContainsFunc(environs, has) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Await waits until the condition holds. To look takes processor time: the longer
// it was waited for, the longer it waits for the next look.
func Await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	for !holds() {
		waited := time.Since(began)
		if waited > Patience {
			t.Fatalf("%s: waited for it for %s in vain", what, Patience)
		}
		time.Sleep(min(max(waited/8, 2*time.Millisecond), 100*time.Millisecond))
	}
}

// AwaitProcesses waits until the command has so many processes.
func AwaitProcesses(t *testing.T, mark string, n int) {
	t.Helper()
	Await(t, fmt.Sprintf("%d processes of the command", n), func() bool { return len(Marked(mark)) == n })
}

// StatusOf returns /proc/PID/status, "" for a process that is gone.
func StatusOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return string(text)
}

// Exists reports whether there is a file.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Sleeper is a child of this process that no guard knows, until the test ends.
func Sleeper(t *testing.T) *os.Process {
	t.Helper()
	process, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Kill()
		_, _ = process.Wait()
	})
	return process
}

// Below has a script run below this process, without a guard, and waits until it has
// so many processes.
func Below(t *testing.T, script string, size int) (mark string) {
	t.Helper()
	mark = BelowAs(t, script, nil)
	AwaitProcesses(t, mark, size)
	return mark
}

// BelowAs has it run as another user, and does not wait for what it forks. This
// process is a subreaper, and reaps, until the test ends.
func BelowAs(t *testing.T, script string, user *syscall.Credential) (mark string) {
	t.Helper()
	reapUntilTheEnd(t)
	mark = NewMark()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{
		Env: append(os.Environ(), MarkVar+"="+mark, SelfVar+"="+binary),
		Sys: &syscall.SysProcAttr{Credential: user},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range Marked(mark) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		AwaitProcesses(t, mark, 0)
		_ = process.Release()
	})
	return mark
}

func reapUntilTheEnd(t *testing.T) {
	if err := parent.BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	children, stop, stopped := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-children:
				parent.Reap(children, func(int, syscall.WaitStatus) {})
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		signal.Stop(children)
		close(stop)
		<-stopped
	})
}
