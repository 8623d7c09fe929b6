package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
	"berth/test/process"
)

// grace is how long a wrapper has to end after TERM.
const grace = 5 * time.Second

// errStillRuns: a wrapper has not ended in the time that it was given.
var errStillRuns = errors.New("it still runs")

// attempt is one run of a wrapper, with stamp as its command.
type attempt struct {
	*process.Process
	of    *program
	line  []string
	began int64  // right before it was forked, see measure.Now
	file  string // what its command writes
	log   string // what it says itself
	exe   string // the command
}

// launch starts a wrapper on a lock, with a command that runs for that long; one
// of 0 ends at once and writes no end.
func (a *Arena) launch(p *program, wrap wrapper, lock string, runs time.Duration) (*attempt, error) {
	file := filepath.Join(a.dir, "run-"+strconv.FormatInt(a.runs.Add(1), 10))
	log, err := os.Create(file + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := []string{a.stamp, file}
	if runs > 0 {
		command = append(command, strconv.FormatInt(runs.Milliseconds(), 10))
	}
	line := wrap(lock, command)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(plainEnvironment(), p.environment...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.dir, log, log
	t := &attempt{of: p, line: line, began: measure.Now(), file: file, log: log.Name(), exe: a.stamp}
	t.Process, err = process.Start(cmd)
	return t, err
}

// stamps returns what the command has written, zero if it has not started.
func (t *attempt) stamps() (measure.Stamps, error) { return measure.ReadStamps(t.file) }

// awaitStart waits until the command has started. It polls, and so is not for
// moments that are measured.
func (t *attempt) awaitStart(ctx context.Context) (measure.Stamps, error) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s, err := t.stamps()
		if err != nil || s.Start != 0 {
			return s, err
		}
		if err := measure.Sleep(ctx, 2*time.Millisecond); err != nil {
			return s, err
		}
	}
	return measure.Stamps{}, t.failed("its command has not started within " + patience.String())
}

// await waits until the wrapper has ended, errStillRuns if that takes longer than
// bound.
func (t *attempt) await(ctx context.Context, bound time.Duration) error {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-t.Done():
		return nil
	case <-timer.C:
		return errStillRuns
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitEnd waits until the wrapper has ended cleanly, and returns what its command wrote.
func (t *attempt) awaitEnd(ctx context.Context) (measure.Stamps, error) {
	if err := t.await(ctx, patience); errors.Is(err, errStillRuns) {
		return measure.Stamps{}, t.failed("it has not ended within " + patience.String())
	} else if err != nil {
		return measure.Stamps{}, err
	}
	if !t.State().Success() {
		return measure.Stamps{}, t.failed(t.State().String())
	}
	s, err := t.stamps()
	if err == nil && s.Start == 0 {
		err = t.failed("it has ended without having started its command")
	}
	return s, err
}

// endCommand ends the command with a signal, and reports whether it ran.
func (t *attempt) endCommand(sig syscall.Signal) bool {
	s, err := t.stamps()
	return err == nil && s.PID != 0 && process.Executable(s.PID) == t.exe && syscall.Kill(s.PID, sig) == nil
}

// close ends what is left: the command, then the wrapper.
func (t *attempt) close() {
	t.endCommand(syscall.SIGKILL)
	_ = t.Signal(syscall.SIGTERM)
	t.End(grace)
}

func (t *attempt) failed(what string) error {
	return fmt.Errorf("%s (%q): %s; the end of what it said:\n%s", t.of.name, t.line, what, tail(t.log))
}

// addMemory adds up a wrapper and all that is below it but the command.
func (t *attempt) addMemory(to *report.Measure) error {
	sum := 0
	for _, pid := range append([]int{t.PID()}, process.Descendants(t.PID())...) {
		if process.Executable(pid) == t.exe {
			continue
		}
		kib, err := measure.Private(pid)
		if err != nil {
			return fmt.Errorf("cannot read the memory of %s: %w", t.of.name, err)
		}
		sum += kib
	}
	to.Add(t.of.name, float64(sum))
	return nil
}
