package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a process has to end after TERM.
const grace = 5 * time.Second

var errStillRuns = errors.New("it still runs")

// process is a child, which the kernel kills when the bench ends.
type process struct {
	*exec.Cmd
	began int64         // right before it was forked, see now
	done  chan struct{} // closed once it has ended and was waited for
}

// spawn starts cmd, in a process group of its own so that an interrupt typed at
// the terminal is the bench's to deal with. The parent-death signal comes when
// the thread that forked ends, so one goroutine keeps that thread.
func spawn(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p := &process{Cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.began = now()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the status is in ProcessState
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// await waits until it has ended, errStillRuns if that takes longer than bound.
func (p *process) await(ctx context.Context, bound time.Duration) error {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errStillRuns
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends it with TERM, and with KILL if that does not help.
func (p *process) end() {
	_ = p.Process.Signal(syscall.SIGTERM)
	if p.await(context.Background(), grace) != nil {
		_ = p.Process.Kill()
		<-p.done // nothing survives KILL
	}
}

// descendants returns the numbers of all processes below pid.
func descendants(pid int) []int {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "PID (NAME) STATE PPID ...", where NAME may contain anything.
		text := string(stat)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		child, err1 := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, err2 := strconv.Atoi(fields[1])
		if err1 == nil && err2 == nil {
			children[parent] = append(children[parent], child)
		}
	}
	var found []int
	for next := children[pid]; len(next) > 0; {
		found = append(found, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return found
}

// executable returns the path of the program that a process runs, "" if it has
// ended.
func executable(pid int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return path
}

// sweep kills every process that runs a program of a directory. Nobody but the
// bench runs what it has built in its own.
func sweep(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && strings.HasPrefix(executable(pid), dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// sleep waits, and reports how ctx ended if it does so first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now is a moment on CLOCK_MONOTONIC in nanoseconds, the clock of stamp.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux that Go supports has the clock
	}
	return t.Nano()
}
