package adapter

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"berth/prover/history"
	"berth/test/process"
)

// Client is one run of an adapter.
type Client struct {
	At int64 // when it was started, as history.Now

	process *process.Process
	done    chan struct{} // closed once the fields below are set
	until   int64         // when it ended
}

// Start starts the command line in a session of its own, with its output in a file. The kernel kills it when the program
// that started it ends.
func (t Template) Start(env []string, log *os.File) (*Client, error) {
	cmd := exec.Command(t[0], t[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c := &Client{At: history.Now(), done: make(chan struct{})}
	var err error
	if c.process, err = process.Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		<-c.process.Done()
		c.until = history.Now()
		close(c.done)
	}()
	return c, nil
}

// PID returns the process's ID.
func (c *Client) PID() int { return c.process.PID() }

// Done is closed once the client has ended. What its command has started may live on.
func (c *Client) Done() <-chan struct{} { return c.done }

// Ended reports whether the client has ended.
func (c *Client) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Until returns when the client ended, and its exit status, 128 and more for a signal. It waits for the end.
func (c *Client) Until() (at int64, status int) {
	<-c.done
	how := c.process.State().Sys().(syscall.WaitStatus)
	if how.Signaled() {
		return c.until, 128 + int(how.Signal())
	}
	return c.until, how.ExitStatus()
}

// Signal sends a signal to the client alone. One that has ended gets none.
func (c *Client) Signal(sig syscall.Signal) { _ = c.process.Signal(sig) }

// End sends TERM to the client's process group, as a terminal or systemd does, and KILL when patience is over. It returns
// when the client has ended, with the moment at which it was killed; 0: it ended by itself.
func (c *Client) End(patience context.Context) (killed int64) {
	c.group(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-patience.Done():
		killed = history.Now()
		c.group(syscall.SIGKILL)
		<-c.done
	}
	return killed
}

// group signals the whole process group. The client leads it, and no other process gets its number while it has not been
// waited for, or another process of it lives.
func (c *Client) group(sig syscall.Signal) {
	if !c.Ended() {
		_ = syscall.Kill(-c.PID(), sig)
	}
}

// EndAll waits until nothing lives that was started with an entry, such as HOME=/tmp/x, in its environment. It kills what
// does when patience is over, or ctx has ended, and returns that, each with its environment.
func EndAll(ctx context.Context, entry string, patience time.Duration) (left map[int][]string, err error) {
	const pause, bound = 10 * time.Millisecond, 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for left = process.WithEnvironment(entry); len(left) > 0 && ctx.Err() == nil; left = process.WithEnvironment(entry) {
		time.Sleep(pause)
	}
	self, over := process.Executable(os.Getpid()), time.Now().Add(bound)
	for none := 0; none < 10; time.Sleep(pause) { // in a row: one that has forked and ended meanwhile is not found
		living := process.WithEnvironment(entry)
		for pid := range living {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		none++
		if len(living) > 0 || process.Begins(self) {
			none = 0
		}
		if none == 0 && time.Now().After(over) {
			return left, fmt.Errorf("processes are still there that do not die of KILL, or do not begin: %v",
				slices.Sorted(maps.Keys(living)))
		}
	}
	return left, nil
}
