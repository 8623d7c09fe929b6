// Command bench measures berth: beside other programs that run a command under a
// lock, where a handover goes, and what thousands of contenders cost.
//
//	make bench                            # everything, in under half an hour; writes docs/performance.md
//	make bench BENCH="-only handover -n 5"
//	make bench BENCH="-busy -n 2 -kills 2 -window 2s"  # only a try, on a machine that does other things, too
//
// It knows the command line, when the machine is quiet enough, and which sections of
// the page may be written. It must not know how anything is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/test/bench/compare"
	"berth/test/bench/measure"
	"berth/test/bench/report"
	"berth/test/bench/scale"
)

const (
	// quietPatience is how long is waited for the machine to become quiet before a
	// scenario.
	quietPatience = 2 * time.Minute

	// mostStolen is the share of processor time that the hypervisor may have taken
	// during a run whose figures are published.
	mostStolen = 0.02
)

// options are what the command line says.
type options struct {
	berth, markdown, json string

	only    []string // names of scenarios; empty: all
	busy    bool
	flags   string // that say how much is measured
	compare compare.Sizes
	scale   scale.Sizes
}

// errUsage: the command line is wrong.
var errUsage = errors.New("see bench -help")

func main() {
	// The first interrupt ends everything in order. Children are killed by the
	// kernel should a second one be needed.
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status: 0, 1 if something could not be measured or written,
// 2 for wrong usage, 130 after an interrupt.
func run(ctx context.Context, args []string, out, log io.Writer) int {
	o, err := parse(args, log)
	if err == nil {
		err = bench(ctx, o, out, log)
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case ctx.Err() != nil: // what else it has led to is of no interest
		fmt.Fprintln(log, "bench: interrupted")
		return 130
	case errors.Is(err, errUsage):
		fmt.Fprintln(log, "bench:", err)
		return 2
	}
	fmt.Fprintln(log, "bench:", err)
	return 1
}

// parse reads the command line.
func parse(args []string, log io.Writer) (options, error) {
	var o options
	var only string
	var settle, idle, window time.Duration
	var contenders int
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(log)
	names, _ := scenarios()
	f.StringVar(&only, "only", "", "measure only these `scenarios`: "+strings.Join(names, ","))
	f.BoolVar(&o.busy, "busy", false, "measure on a machine that is busy, too, and leave the page alone")
	f.StringVar(&o.berth, "berth", "./berth", "the binary to measure")
	f.StringVar(&o.markdown, "markdown", "", "write into those sections of this `page` that are measured whole")
	f.StringVar(&o.json, "json", "", "write every sample into this `file`")
	f.IntVar(&o.compare.Rounds, "n", 20, "rounds of start, handover and steps")
	f.IntVar(&o.compare.Kills, "kills", 8, "rounds of kill")
	f.IntVar(&o.compare.Memory, "memory", 5, "rounds of memory")
	f.IntVar(&o.compare.Idlers, "idlers", 20, "waiters of idle")
	f.IntVar(&o.compare.Windows, "windows", 3, "rounds of passes")
	f.IntVar(&o.scale.Waiters, "waiters", 2000, "waiters: how many wait for one mutex")
	f.IntVar(&o.scale.Handovers, "handovers", 50, "waiters: how often it goes to the next of them")
	f.IntVar(&o.scale.Locks, "locks", 1000, "locks: how many mutexes, each with one holder and one waiter")
	f.IntVar(&o.scale.Slots, "slots", 1000, "slots: size of the semaphore of which all slots but one are held")
	f.IntVar(&o.scale.Searches, "searches", 20, "slots: how often the free one is searched for")
	f.IntVar(&contenders, "contenders", 12, "passes, turns: how many compete")
	f.DurationVar(&window, "window", 10*time.Second, "passes, turns: how long they do")
	f.DurationVar(&settle, "settle", 70*time.Second,
		"idle, waiters, locks: pause before the idle window; new waiters look often by themselves for a minute")
	f.DurationVar(&idle, "idle", time.Minute, "idle, waiters, locks: idle window over which is counted")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w; %w", err, errUsage)
	}
	o.compare.Contenders, o.compare.Window, o.compare.Settle, o.compare.Idle = contenders, window, settle, idle
	o.scale.Contenders, o.scale.Window, o.scale.Settle, o.scale.Idle = contenders, window, settle, idle
	f.Visit(func(one *flag.Flag) {
		if !slices.Contains([]string{"berth", "markdown", "json"}, one.Name) {
			o.flags = strings.TrimSpace(o.flags + " -" + one.Name + " " + one.Value.String())
		}
	})
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o, o.check(f)
}

// check refuses what cannot be measured.
func (o options) check(f *flag.FlagSet) (err error) {
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; %w", f.Arg(0), errUsage)
	}
	names, _ := scenarios()
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-only: there is no scenario %q; %w", name, errUsage)
		}
	}
	f.VisitAll(func(one *flag.Flag) {
		switch value := one.Value.(flag.Getter).Get().(type) {
		case int:
			if value < 1 {
				err = fmt.Errorf("-%s must be 1 or more; %w", one.Name, errUsage)
			}
		case time.Duration:
			if value <= 0 {
				err = fmt.Errorf("-%s must be longer than 0; %w", one.Name, errUsage)
			}
		}
	})
	if err == nil && o.scale.Handovers > o.scale.Waiters {
		err = fmt.Errorf("-handovers %d needs as many -waiters; %w", o.scale.Handovers, errUsage)
	}
	return err
}

// scenarios returns the names of all scenarios in order, and their sections.
func scenarios() (names, sections []string) {
	names, sections = compare.Scenarios()
	n, s := scale.Scenarios()
	return append(names, n...), append(sections, s...)
}

// chosen reports whether a scenario is to be measured.
func (o options) chosen(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }

// lab measures scenarios.
type lab interface {
	Measure(ctx context.Context, name string) ([]*report.Measure, error)
	Versions() []string
	Close() error
}

// bench measures what was chosen and writes the report.
func bench(ctx context.Context, o options, out, log io.Writer) error {
	load, err := measure.Load()
	if err != nil {
		return err
	}
	r := &report.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit(ctx), Flags: o.flags,
		Machine: measure.Machine(), Load: load,
	}
	before, err := measure.ReadTicks()
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(log, "bench: "+format+"\n", args...) }
	compared, _ := compare.Scenarios()
	err = o.measure(ctx, r, compared, say, func() (lab, error) { return compare.Open(ctx, o.berth, o.compare, say) })
	if err == nil {
		scaled, _ := scale.Scenarios()
		err = o.measure(ctx, r, scaled, say, func() (lab, error) { return scale.Open(o.scale, say) })
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprint(out, r.Text()) // also what there is of it when something has failed
	after, readErr := measure.ReadTicks()
	if err = errors.Join(err, readErr); err != nil {
		return err
	}
	_, r.Stolen = after.Since(before)
	return o.write(r, say)
}

// measure adds those scenarios of a lab to a report that were chosen.
func (o options) measure(
	ctx context.Context, r *report.Report, names []string, say func(string, ...any), open func() (lab, error),
) (err error) {
	names = slices.DeleteFunc(names, func(name string) bool { return !o.chosen(name) })
	if len(names) == 0 {
		return nil
	}
	l, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, name := range names {
		used, err := measure.AwaitQuiet(ctx, o.quietPatience())
		r.Busy = max(r.Busy, used)
		if tooMuch := new(measure.BusyError); errors.As(err, &tooMuch) && o.busy {
			say("%s", err)
		} else if err != nil {
			return fmt.Errorf("cannot measure %s: %w; end what else runs, or give -busy", name, err)
		}
		say("%s begins", name)
		began := time.Now()
		measures, err := l.Measure(ctx, name)
		if err != nil {
			return fmt.Errorf("cannot measure %s: %w", name, err)
		}
		say("%s took %s", name, time.Since(began).Round(time.Second))
		r.Measures = append(r.Measures, measures...)
	}
	r.Versions = append(r.Versions, l.Versions()...)
	return nil
}

// quietPatience is how long to wait for a quiet machine.
func (o options) quietPatience() time.Duration {
	if o.busy {
		return 0
	}
	return quietPatience
}

// write writes the files that were asked for.
func (o options) write(r *report.Report, say func(string, ...any)) error {
	if o.json != "" {
		if err := r.WriteJSON(o.json); err != nil {
			return err
		}
	}
	if o.markdown == "" {
		return nil
	}
	if o.busy {
		say("%s is as it was, because of -busy", o.markdown)
		return nil
	}
	if r.Stolen > mostStolen {
		return fmt.Errorf("%s is as it was: the hypervisor took %.1f %% of the processor time during the run, "+
			"and %.0f %% may be; measure on a machine that shares its processor less",
			o.markdown, 100*r.Stolen, 100*mostStolen)
	}
	for _, section := range r.Sections() {
		if missing := o.missing(section); len(missing) > 0 {
			say("section %q of %s is as it was: %s was not measured", section, o.markdown, strings.Join(missing, ", "))
			continue
		}
		if err := r.WriteSection(section, o.markdown); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the scenarios of a section that were not chosen.
func (o options) missing(section string) (names []string) {
	all, sections := scenarios()
	for i, name := range all {
		if sections[i] == section && !o.chosen(name) {
			names = append(names, name)
		}
	}
	return names
}

// commit names the tree's, with -dirty behind it if something else was built, maybe.
func commit(ctx context.Context) string {
	name, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12").Output()
	if err != nil {
		return "unknown" // not in a repository, or without git
	}
	// Pages do not count: this program writes one.
	status := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/docs")
	changes, err := status.Output()
	dirty := ""
	if err != nil || len(changes) > 0 {
		dirty = "-dirty"
	}
	return strings.TrimSpace(string(name)) + dirty
}
