package guard

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/supervisor"
)

// The test binary is several programs: the guard under its own name, and what
// the variable roleVar says.
const (
	roleVar   = "GUARD_TEST_ROLE"
	scriptVar = "GUARD_TEST_SCRIPT"

	// stallVar has a guard do nothing before somebody writes to this FIFO.
	stallVar = "GUARD_TEST_STALL"

	// noCgroupVar has a guard do without a control group.
	noCgroupVar = "GUARD_TEST_NO_CGROUP"
)

func init() {
	if os.Getenv(roleVar) != "" {
		runtime.LockOSThread() // so that TestMain is on the first thread
	}
}

func TestMain(m *testing.M) {
	useCgroups = os.Getenv(noCgroupVar) == ""
	switch role := os.Getenv(roleVar); {
	case os.Args[0] == Name:
		if fifo := os.Getenv(stallVar); fifo != "" {
			_, _ = os.ReadFile(fifo)
		}
		os.Exit(Main(os.Args, executeWill))
	case role == "supervisor":
		superviseScript()
	case role == "without first thread":
		loseFirstThread()
	case role == "fork from a thread":
		forkFromAThread()
	case role == "fork among threads":
		forkAmongThreads(200)
	case role != "":
		fmt.Fprintf(os.Stderr, "unknown role %q\n", role)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// executeWill makes the file that the will names.
func executeWill(_ context.Context, will []byte) error {
	return os.WriteFile(string(will), nil, 0o600)
}

// superviseScript is a supervisor to be killed by a test. Its command is the
// script; it tells of its guard's pid on standard output, and then waits.
func superviseScript() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	script := os.Getenv(scriptVar)
	os.Unsetenv(roleVar)
	host, err := NewHost()
	check(err)
	launched, err := host.Launch(Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()})
	check(err)
	check(launched.Start(supervisor.Start{Vars: []string{markVar + "=" + os.Getenv(scriptVar+"_MARK")}}))
	fmt.Println(launched.(*Guard).pid, launched.(*Guard).group)
	for range launched.Events() {
	}
	select {}
}

// loseFirstThread goes on in another thread when its first one has ended, so
// that the process looks like a dead one in /proc/PID/stat.
func loseFirstThread() {
	time.AfterFunc(time.Hour, func() { os.Exit(0) })
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}
