package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
)

// patience is how long is waited for what has to happen. Nothing is concluded
// from the time it took.
const patience = 45 * time.Second

// markVariable marks a berth and every process below it.
const markVariable = "FAULTS_MARK"

var sequence atomic.Int64

// contender is one berth that is tested, with its way to the broker.
type contender struct {
	t     testing.TB
	name  string // WITNESS_CLIENT
	mark  string
	cmd   *exec.Cmd
	log   string // file
	relay *relay
	net   *namespace // nil: this one
	done  chan struct{}
}

// launch starts a berth with the witness as its command.
func (c *contender) launch(binary string, args, env []string) {
	c.t.Helper()
	line := append([]string{binary, "run"}, args...)
	line = append(line, "--", command)
	if c.net != nil {
		line = append([]string{"ip", "netns", "exec", c.net.name}, line...)
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	c.cmd = exec.Command(line[0], line[1:]...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.Env = append(env,
		markVariable+"="+c.mark, "WITNESS_CLIENT="+c.name, "BERTH_LOG_LEVEL=debug",
		"WITNESS_UNTIL="+strconv.FormatInt(history.Now()+int64(5*time.Minute), 10))
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The parent-death signal comes when the thread that forked ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // the status is in ProcessState
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		c.t.Fatalf("cannot start berth: %v", err)
	}
}

func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BERTH_") || strings.HasPrefix(v, "WITNESS_")
	})
}

// pid is the supervisor's: ip-netns(8) becomes what it executes.
func (c *contender) pid() int { return c.cmd.Process.Pid }

func (c *contender) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Errorf("cannot send %v to berth %s: %v", sig, c.name, err)
	}
}

// signalGuard sends a signal to the guard.
func (c *contender) signalGuard(sig syscall.Signal) {
	c.t.Helper()
	guard := c.guard()
	if guard == 0 {
		c.t.Errorf("berth %s has no guard", c.name)
		return
	}
	if err := syscall.Kill(guard, sig); err != nil {
		c.t.Errorf("cannot send %v to the guard of berth %s: %v", sig, c.name, err)
	}
}

// guard returns the process number of the guard, 0 if there is none.
func (c *contender) guard() int {
	for _, pid := range c.marked() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if bytes.HasPrefix(args, []byte("berth-guard\x00")) && len(fields) > 1 && fields[1] == strconv.Itoa(c.pid()) {
			return pid
		}
	}
	return 0
}

// marked returns what lives of this berth and what it has started.
func (c *contender) marked() []int {
	var pids []int
	variable := []byte("\x00" + markVariable + "=" + c.mark + "\x00")
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), variable) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// logged returns how often the log has the text.
func (c *contender) logged(text string) int {
	log, _ := os.ReadFile(c.log)
	return bytes.Count(log, []byte(text))
}

func (c *contender) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// end ends the berth cleanly, and with force what does not end. What is left then of its
// command is an error, unless that is not promised.
func (c *contender) end() {
	const grace = 20 * time.Second
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.t.Errorf("berth %s does not end on TERM within %s", c.name, grace)
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	for _, text := range []string{"panic: ", "fatal error: "} {
		if c.logged(text) > 0 {
			c.t.Errorf("berth %s is broken, see what it said", c.name)
		}
	}
	for over := time.Now().Add(grace); ; time.Sleep(5 * time.Millisecond) {
		left := c.marked()
		if len(left) == 0 {
			return
		}
		if time.Now().After(over) {
			c.t.Errorf("processes %v of berth %s are left", left, c.name)
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
	}
}
