// Package compare measures the built berth beside other programs that run a command
// under a lock: etcdctl lock and flock.
//
// Every program has a server of its own on 127.0.0.1 and runs the same command, the
// static C program in stamp, which writes down on CLOCK_MONOTONIC when it starts and
// when it ends. They take turns: one round of each, then the next.
//
// It knows command lines, and must not know berth's packages.
package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
	"berth/test/process"
)

// patience is how long is waited for what has to happen. Nothing is concluded
// from it.
const patience = 60 * time.Second

const (
	// queueing is how long a waiter has to have been there before what it waits
	// for happens.
	queueing = 600 * time.Millisecond

	// longRun is how long commands run that are to be ended; they do not outlive
	// it if the run is killed.
	longRun = 3 * time.Minute
)

// Sizes say how much is measured. All of them are 1 or more.
type Sizes struct {
	Rounds     int           // of start, handover, steps and asked; runs of a series of processor
	Kills      int           // rounds of kill
	Memory     int           // rounds of memory
	Idlers     int           // waiters of idle
	Windows    int           // rounds of passes and processor
	Contenders int           // loops of passes
	Window     time.Duration // length of a round of passes
	Settle     time.Duration // how long waiters of idle are left alone first
	Idle       time.Duration // how long idle counts
}

// Arena is where everything happens: a temporary directory, the programs and their
// servers. The zero value is not usable: see Open.
type Arena struct {
	sizes    Sizes
	say      func(format string, args ...any) // reports progress
	dir      string
	stamp    string // the command under test
	berth    string // the copy that is measured
	programs []*program
	versions []string // of programs and servers

	runs atomic.Int64   // how many wrappers were started
	ends []func() error // what Close does, last first
}

// Open starts every server. The caller calls Close.
func Open(ctx context.Context, berth string, sizes Sizes, say func(format string, args ...any)) (*Arena, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory: %w", err)
	}
	a := &Arena{sizes: sizes, say: say, dir: dir}
	if err := a.open(ctx, berth); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Arena) open(ctx context.Context, berth string) error {
	var err error
	if a.stamp, err = measure.BuildStamp(ctx, a.dir); err != nil {
		return err
	}
	if err := a.copyBerth(berth); err != nil {
		return err
	}
	for _, one := range []func(context.Context) (*program, error){a.berthOnRabbit, a.berthLocal, a.etcd, a.flock} {
		p, err := one(ctx)
		if err != nil {
			return err
		}
		a.programs = append(a.programs, p)
	}
	return nil
}

// Versions returns what was measured.
func (a *Arena) Versions() []string { return a.versions }

// Scenarios are what can be measured.
var Scenarios = []report.Scenario[*Arena]{
	{Name: "start", Section: "compared", Measure: (*Arena).start},
	{Name: "handover", Section: "compared", Measure: (*Arena).handover},
	{Name: "kill", Section: "compared", Measure: (*Arena).kill},
	{Name: "processor", Section: "compared", Measure: (*Arena).processor},
	{Name: "memory", Section: "compared", Measure: (*Arena).memory},
	{Name: "connections", Section: "compared", Measure: (*Arena).connections},
	{Name: "idle", Section: "compared", Measure: (*Arena).idle},
	{Name: "passes", Section: "compared", Measure: (*Arena).passes},
	{Name: "steps", Section: "steps", Measure: (*Arena).steps},
	{Name: "asked", Section: "asked", Measure: (*Arena).asked},
}

// atEnd has something done by Close, before what was there earlier.
func (a *Arena) atEnd(f func() error) { a.ends = append(a.ends, f) }

// Close ends every process that is left and every server, and removes the
// directory.
func (a *Arena) Close() error {
	process.Sweep(a.dir)
	var errs []error
	for _, end := range slices.Backward(a.ends) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, os.RemoveAll(a.dir))...)
}

// rounds has programs take turns: one round of each, then the next.
func (a *Arena) rounds(ctx context.Context, n int, programs []*program, f func(round int, p *program) error) error {
	for round := range n {
		a.say("round %d of %d", round+1, n)
		for _, p := range programs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(round, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// tail returns the last lines of a file.
func tail(path string) string {
	const most = 20
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
