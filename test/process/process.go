// Package process runs children for tests and benchmarks, and finds processes.
//
// It knows processes and /proc. It must not know what a child is: a broker, a
// berth, a server that berth is compared with.
package process

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a child that the kernel kills when the program that started it ends.
// The zero value is not usable: see Start.
type Process struct {
	cmd  *exec.Cmd     // its owner is the goroutine that waits, until done is closed
	done chan struct{} // closed once the child has ended and was waited for
}

// Start starts cmd in a process group of its own, so that an interrupt typed at the
// terminal does not reach it, or in a session of its own if cmd.SysProcAttr has that.
//
// The parent-death signal comes when the thread that forked ends, and not the
// process. One goroutine therefore keeps that thread until the child is gone, and
// is the only one that waits for the child.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // State has the status
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID returns the child's ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the child has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// State says how the child ended. It may be called once Done is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Signal sends a signal. The error is os.ErrProcessDone if the child has ended.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// AwaitStopped waits until every thread of a process stands still after SIGSTOP, for no
// longer than bound: the signal takes effect in each of them by itself, and a moment
// after it was sent.
func AwaitStopped(pid int, bound time.Duration) error {
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		running := slices.ContainsFunc(tasks, func(task string) bool {
			fields, err := Stat(task)
			return err == nil && fields[0] != "T"
		})
		if !running {
			return nil
		}
	}
	return fmt.Errorf("process %d goes on %s after SIGSTOP", pid, bound)
}

// End waits until the child has ended, and kills it after grace, which may be 0.
func (p *Process) End(grace time.Duration) {
	if grace > 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
		}
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.done // nothing survives SIGKILL
}

// Stat returns the fields of a stat file of /proc that follow the process's name,
// from the state on, which is the third one in proc_pid_stat(5).
func Stat(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// "PID (NAME) STATE PPID ...", where NAME may contain anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 22 {
		return nil, fmt.Errorf("%s has only %d fields", file, len(fields)+2)
	}
	return fields, nil
}

// Descendants returns the IDs of all processes below pid.
func Descendants(pid int) []int {
	children := map[int][]int{}
	for _, child := range each("stat") {
		fields, err := Stat(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue // it has ended
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
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

// Executable returns the path of the program that a process runs, "" if it has
// ended.
func Executable(pid int) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return path
}

// Sweep kills every process that runs a program from below a directory. It is for
// a directory whose programs nobody else runs.
func Sweep(dir string) {
	for _, pid := range each("exe") {
		if strings.HasPrefix(Executable(pid), dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// WithEnvironment returns the processes that were started with an entry, such as HOME=/tmp/x, in their environment, each
// with all of it.
func WithEnvironment(entry string) map[int][]string {
	found := map[int][]string{}
	for _, pid := range each("environ") {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // "": it is gone, a zombie, or somebody else's
		if env := strings.Split(string(text), "\x00"); slices.Contains(env, entry) {
			found[pid] = env
		}
	}
	return found
}

// Begins reports whether another process executes this program that has no environment yet (execve(2) has not come to that), so
// that WithEnvironment does not know it.
func Begins(executable string) bool {
	return slices.ContainsFunc(each("environ"), func(pid int) bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return err == nil && len(text) == 0 && Executable(pid) == executable && pid != os.Getpid()
	})
}

// AwaitGone waits until no process has dir as its HOME.
func AwaitGone(ctx context.Context, dir string) error {
	for {
		left := WithEnvironment("HOME=" + dir)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v that live in %s are still there; end them by hand",
				slices.Sorted(maps.Keys(left)), dir)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// each returns all processes that have a file of that name in /proc.
func each(file string) []int {
	var pids []int
	paths, _ := filepath.Glob("/proc/[0-9]*/" + file)
	for _, path := range paths {
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
