// Command bench measures berth beside other programs that run a command under a
// lock: etcdctl lock, flock, and consul lock where there is a consul in PATH.
//
//	make bench                       # everything, in under ten minutes; writes docs/performance.md
//	dist/bench -n 3 -kills 2         # only a try: prints a table and writes nothing
//	dist/bench -only start,handover  # some of it
//
// Every contender has a server of its own on 127.0.0.1 and runs the same command,
// the static C program in stamp, which writes down on CLOCK_MONOTONIC when it
// starts and when it ends. They take turns: one round of each, then the next. The
// bench drives the built binary and shares no code with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	berth, markdown, svg, json string
	only                       []string

	rounds, kills, memory, waiters, windows int

	settle, idle, window time.Duration
}

// bench is one run.
type bench struct {
	options options
	arena   *arena
	log     io.Writer // progress
	current string    // what is measured
}

// part is what can be measured by itself.
type part struct {
	name string
	run  func(*bench, context.Context) ([]*measure, error)
}

var parts = []part{ // in order
	{"start", (*bench).measureStart},
	{"handover", (*bench).measureHandover},
	{"kill", (*bench).measureKill},
	{"memory", (*bench).measureMemory},
	{"idle", (*bench).measureIdle},
	{"passes", (*bench).measurePasses},
}

func main() {
	// The first interrupt ends everything in order. Children are killed by the
	// kernel should a second one be needed.
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "bench: interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	r := &report{Date: time.Now().UTC().Format(time.DateOnly), Flags: strings.Join(given(args), " "), Machine: thisMachine()}
	a, err := newArena(ctx, o.berth)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	for _, c := range a.contenders {
		r.Contenders = append(r.Contenders, program{Name: c.name, Version: c.version})
	}
	b := &bench{options: o, arena: a, log: log}
	for _, part := range parts {
		if len(o.only) > 0 && !slices.Contains(o.only, part.name) {
			continue
		}
		b.current = part.name
		began := time.Now()
		measures, err := part.run(b, ctx)
		if ctx.Err() != nil {
			return ctx.Err() // what it has led to is of no interest
		}
		if err != nil {
			return fmt.Errorf("cannot measure %s: %w", part.name, err)
		}
		fmt.Fprintf(log, "bench: %s took %s\n", part.name, time.Since(began).Round(time.Second))
		r.Measures = append(r.Measures, measures...)
	}
	fmt.Fprint(out, r.text())
	return r.write(o)
}

func parse(args []string, log io.Writer) (options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&o.berth, "berth", "./berth", "the binary to measure")
	f.StringVar(&o.markdown, "markdown", "", "write the table into this `file`, between its markers if it is there already")
	f.StringVar(&o.svg, "svg", "", "draw the plot into this `file`")
	f.StringVar(&o.json, "json", "", "write every sample into this `file`")
	f.StringVar(&only, "only", "", "measure only these `parts`: start,handover,kill,memory,idle,passes")
	f.IntVar(&o.rounds, "n", 20, "rounds of start and handover")
	f.IntVar(&o.kills, "kills", 20, "rounds of kill")
	f.IntVar(&o.memory, "memory", 5, "rounds of memory")
	f.IntVar(&o.waiters, "waiters", 20, "waiters of idle")
	f.IntVar(&o.windows, "windows", 3, "rounds of passes")
	f.DurationVar(&o.window, "window", 10*time.Second, "how long a round of passes counts")
	f.DurationVar(&o.settle, "settle", 70*time.Second, "how long waiters of idle are left alone before they are counted: berth's look by themselves for up to a minute")
	f.DurationVar(&o.idle, "idle", 30*time.Second, "how long idle counts")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see bench -help", f.Arg(0))
	}
	for _, n := range []int{o.rounds, o.kills, o.memory, o.waiters, o.windows} {
		if n < 1 {
			return o, fmt.Errorf("cannot do %d rounds; give 1 or more", n)
		}
	}
	if only == "" {
		return o, nil
	}
	if o.only = strings.Split(only, ","); o.markdown != "" || o.svg != "" {
		return o, errors.New("-only leaves out what a page should have; do without -markdown and -svg")
	}
	for _, name := range o.only {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return o, fmt.Errorf("-only: there is no %q; see bench -help", name)
		}
	}
	return o, nil
}

// rounds has contenders take turns: one round of each, then the next.
func (b *bench) rounds(ctx context.Context, n int, contenders []*contender, f func(round int, c *contender) error) error {
	for round := range n {
		b.progress(round, n)
		for _, c := range contenders {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(round, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) progress(round, of int) {
	fmt.Fprintf(b.log, "bench: %s, round %d of %d\n", b.current, round+1, of)
}
