package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// attempt is one run of a wrapper, with stamp as its command.
type attempt struct {
	*process
	of   *contender
	file string // what its command writes
	exe  string // the command
}

// launch starts a wrapper on a lock, with a command that runs for that long; one
// of 0 ends at once and writes no end.
func (a *arena) launch(c *contender, lock string, runs time.Duration) (*attempt, error) {
	return a.launchWith(c, c.wrap, lock, a.file(), runs)
}

// launchWith is launch with another way to wrap, and a file that may be shared by
// attempts that follow each other.
func (a *arena) launchWith(c *contender, wrap wrapper, lock, file string, runs time.Duration) (*attempt, error) {
	command := []string{a.stamp, file}
	if runs > 0 {
		command = append(command, strconv.FormatInt(runs.Milliseconds(), 10))
	}
	line := wrap(lock, command)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(plainEnvironment(), c.environment...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.dir, c.log, c.log
	p, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	return &attempt{process: p, of: c, file: file, exe: a.stamp}, nil
}

// stamps returns the last run of the command, zero if it has not started.
func (t *attempt) stamps() (stamps, error) {
	all, err := readStamps(t.file)
	if err != nil || len(all) == 0 {
		return stamps{}, err
	}
	return all[len(all)-1], nil
}

// awaitStart waits until the command has started. It polls, and so is not for
// moments that are measured.
func (t *attempt) awaitStart(ctx context.Context) (stamps, error) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s, err := t.stamps()
		if err != nil || s.start != 0 {
			return s, err
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return s, err
		}
	}
	return stamps{}, t.failed("its command has not started within " + patience.String())
}

// awaitEnd waits until the wrapper has ended, in order, and returns what its
// command wrote.
func (t *attempt) awaitEnd(ctx context.Context) (stamps, error) {
	if err := t.await(ctx, patience); errors.Is(err, errStillRuns) {
		return stamps{}, t.failed("it has not ended within " + patience.String())
	} else if err != nil {
		return stamps{}, err
	}
	if !t.ProcessState.Success() {
		return stamps{}, t.failed(t.ProcessState.String())
	}
	s, err := t.stamps()
	if err == nil && s.start == 0 {
		err = t.failed("it has ended without having started its command")
	}
	return s, err
}

// close ends what is left: the command, then the wrapper.
func (t *attempt) close() {
	if s, err := t.stamps(); err == nil && s.pid != 0 && executable(s.pid) == t.exe {
		_ = syscall.Kill(s.pid, syscall.SIGKILL)
	}
	select {
	case <-t.done:
	default:
		t.end()
	}
}

// release ends the command, and waits until the wrapper has given the lock back.
func (t *attempt) release(ctx context.Context) error {
	s, err := t.stamps()
	if err != nil {
		return err
	}
	if s.pid == 0 || executable(s.pid) != t.exe {
		return t.failed("its command does not run")
	}
	if err := syscall.Kill(s.pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot end the command of %s: %w", t.of.name, err)
	}
	if err := t.await(ctx, patience); errors.Is(err, errStillRuns) {
		return t.failed("it has not ended within " + patience.String() + " of its command")
	} else if err != nil {
		return err
	}
	return nil
}

func (t *attempt) failed(what string) error {
	return fmt.Errorf("%s (%s): %s; the end of what it said:\n%s", t.of.name, t.Cmd, what, tail(t.of.log.Name()))
}
