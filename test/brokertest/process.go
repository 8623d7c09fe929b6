package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// process is a child that the kernel kills when the test process ends.
type process struct {
	p    *os.Process
	done chan struct{} // closed once the child has ended and was waited for
}

// spawn starts cmd. The parent-death signal fires when the thread that forked
// ends, not the process, so one goroutine keeps that thread until the child is
// gone; it ends then.
func spawn(cmd *exec.Cmd) (*process, error) {
	// A process group of its own keeps an interrupt typed at the terminal away
	// from the child.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.p = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is of no interest; the log has it
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// signal sends a signal, and reports ErrNotRunning if the child has ended.
func (p *process) signal(sig syscall.Signal) error {
	err := p.p.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot send %s to the broker: %w", sig, ErrNotRunning)
	}
	return err
}

// awaitStopped waits until every thread stands still after SIGSTOP: the signal
// takes effect in each of them by itself, and a moment after it was sent.
func (p *process) awaitStopped() error {
	for end := time.Now().Add(callTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.p.Pid))
		if err != nil {
			return err
		}
		running := 0
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			// "PID (NAME) STATE ...", see proc_pid_stat(5).
			if after := bytes.LastIndexByte(stat, ')'); err == nil && after >= 0 && !bytes.HasPrefix(stat[after:], []byte(") T")) {
				running++
			}
		}
		if running == 0 {
			return nil
		}
	}
	return fmt.Errorf("the broker goes on %s after SIGSTOP", callTimeout)
}

// end waits until the child has ended, and kills it after grace.
func (p *process) end(grace time.Duration) {
	if grace > 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
		}
	}
	_ = p.signal(syscall.SIGKILL)
	<-p.done // nothing survives SIGKILL
}

// family returns the processes that have dir as their HOME: a node, its epmd
// and every helper they started, for nothing else uses that directory.
func family(dir string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00HOME="+dir+"\x00")) {
			continue // gone, a zombie, somebody else's, or not ours
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitGone waits until family is empty: a node's helpers end by themselves, a
// moment after it.
func awaitGone(ctx context.Context, dir string) error {
	for {
		pids := family(dir)
		if len(pids) == 0 {
			return nil
		}
		if !pause(ctx, 5*time.Millisecond) {
			return fmt.Errorf("processes %v of the broker in %s are still there; end them by hand", pids, dir)
		}
	}
}

// pause waits for d and reports whether ctx is still good.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
