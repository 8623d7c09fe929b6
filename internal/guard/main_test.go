package guard

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/process"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// The test binary is several programs: the guard under its own name, and what
// guardtest.RoleVar says.
const (
	scriptVar = "GUARD_TEST_SCRIPT"

	// stallVar has a guard do nothing before somebody writes to this FIFO.
	stallVar = "GUARD_TEST_STALL"

	// noCgroupVar has the role of a supervisor do without control groups.
	noCgroupVar = "GUARD_TEST_NO_CGROUP"
)

func TestMain(m *testing.M) {
	if os.Args[0] == wire.Name {
		if fifo := os.Getenv(stallVar); fifo != "" {
			_, _ = os.ReadFile(fifo)
		}
		status, will := process.Main(os.Args)
		if will != nil {
			will.Execute(executeWill)
		}
		os.Exit(status)
	}
	guardtest.PlayRole(map[string]func(){"supervisor": superviseScript})
	goleak.VerifyTestMain(m)
}

// executeWill makes the file that the will names.
func executeWill(_ context.Context, will []byte, dead <-chan struct{}) error {
	<-dead
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
	os.Unsetenv(guardtest.RoleVar)
	useCgroups = os.Getenv(noCgroupVar) == ""
	host, err := newTestHost()
	check(err)
	launched, err := host.Launch(Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()})
	check(err)
	check(launched.Start(supervisor.Start{Vars: []string{guardtest.MarkVar + "=" + os.Getenv(scriptVar+"_MARK")}}))
	fmt.Println(launched.(*Guard).pid, launched.(*Guard).cgroup)
	for range launched.Events() {
	}
	select {}
}
