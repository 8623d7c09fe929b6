// Command bench measures berth: beside other programs that run a command under a
// lock, where a handover goes, and what thousands of contenders cost.
//
//	make bench                            # everything, in under half an hour; writes docs/performance.txt
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

	// maxStolen is the share of processor time that the hypervisor may have taken
	// during a run whose figures are published.
	maxStolen = 0.02
)

// options are what the command line says.
type options struct {
	berth, markdown, json string

	only    []string // names of scenarios; empty: all
	busy    bool
	newest  bool   // measure the section newest, in place of compared and all others
	flags   string // that say how much is measured
	compare compare.Sizes
	scale   scale.Sizes
}

// errUsage: the command line is wrong.
var errUsage = errors.New("see bench -help")

func main() {
	// The first interrupt ends everything cleanly. Children are killed by the kernel
	// should a second one be needed.
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
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&only, "only", "", "measure only these `scenarios`: "+strings.Join(names(""), ","))
	f.BoolVar(&o.newest, "newest", false, "measure what is compared, and nothing else, into the section newest: with the etcd of "+
		"PATH and the RabbitMQ of BERTH_TEST_BROKER")
	f.BoolVar(&o.busy, "busy", false, "measure on a machine that is busy, too, and leave the page alone")
	f.StringVar(&o.berth, "berth", "./berth", "the binary to measure")
	f.StringVar(&o.markdown, "markdown", "", "write into those sections of this `page` that are measured whole")
	f.StringVar(&o.json, "json", "", "write every sample into this `file`")
	f.IntVar(&o.compare.Rounds, "n", 20, "rounds of start, handover, steps and asked; runs of a series of processor")
	f.IntVar(&o.compare.Kills, "kills", 8, "rounds of kill")
	f.IntVar(&o.compare.Memory, "memory", 5, "rounds of memory")
	f.IntVar(&o.compare.Idlers, "idlers", 20, "waiters of idle")
	f.IntVar(&o.compare.Windows, "windows", 3, "rounds of passes and processor")
	f.IntVar(&o.scale.Waiters, "waiters", 2000, "waiters: how many wait for one mutex")
	f.IntVar(&o.scale.Handovers, "handovers", 50, "waiters: how often it goes to the next of them")
	f.IntVar(&o.scale.Locks, "locks", 1000, "locks: how many mutexes, each with one holder and one waiter")
	f.IntVar(&o.compare.Contenders, "contenders", 12, "passes: how many compete")
	f.DurationVar(&o.compare.Window, "window", 10*time.Second, "passes: how long a round is")
	f.DurationVar(&o.scale.Settle, "settle", 70*time.Second,
		"idle, waiters, locks: pause before waiters are measured; new ones look often by themselves for a minute")
	f.DurationVar(&o.scale.Idle, "idle", time.Minute, "idle, waiters: how long is counted")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, fmt.Errorf("%w; %w", err, errUsage)
	}
	o.compare.Settle, o.compare.Idle = o.scale.Settle, o.scale.Idle
	f.Visit(func(one *flag.Flag) {
		if !slices.Contains([]string{"berth", "markdown", "json"}, one.Name) {
			o.flags = strings.TrimSpace(o.flags + " -" + one.Name + "=" + one.Value.String())
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
	for _, name := range o.only {
		if !slices.Contains(names(""), name) {
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

// names returns the scenarios of a section of the page, in order; "" for all.
func names(section string) []string {
	return append(of(compare.Scenarios, section), of(scale.Scenarios, section)...)
}

// comparisons are the scenarios of package compare that may be measured, in their sections.
func (o options) comparisons() (scenarios []report.Scenario[*compare.Arena]) {
	if !o.newest {
		return compare.Scenarios
	}
	for _, s := range compare.Scenarios {
		if s.Section == "compared" {
			s.Section = "newest"
			scenarios = append(scenarios, s)
		}
	}
	return scenarios
}

func of[L any](scenarios []report.Scenario[L], section string) (names []string) {
	for _, s := range scenarios {
		if section == "" || section == s.Section {
			names = append(names, s.Name)
		}
	}
	return names
}

// left returns those of some scenarios that are not to be measured.
func (o options) left(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) })
}

// bench measures what was chosen and writes the report.
func bench(ctx context.Context, o options, out, log io.Writer) error {
	load, err := measure.Load()
	if err != nil {
		return err
	}
	r := &report.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: measure.Commit(ctx), Flags: o.flags,
		Machine: measure.Machine(), Load: load,
	}
	before, err := measure.ReadTicks()
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(log, "bench: "+format+"\n", args...) }
	err = measureIn(ctx, o, r, say, o.comparisons(), func() (*compare.Arena, error) {
		a, err := compare.Open(ctx, o.berth, o.compare, say)
		if err == nil {
			r.Goals = a.Goals()
		}
		return a, err
	})
	if err == nil && !o.newest {
		err = measureIn(ctx, o, r, say, scale.Scenarios,
			func() (*scale.Bench, error) { return scale.Open(o.scale, say) })
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprint(out, r.Text()) // also what there is of it when something has failed
	after, readErr := measure.ReadTicks()
	_, r.Stolen = after.Since(before)
	if o.json != "" {
		readErr = errors.Join(readErr, r.WriteJSON(o.json))
	}
	if err = errors.Join(err, readErr); err != nil {
		return err
	}
	return o.write(r, say)
}

// lab has what scenarios need.
type lab interface {
	Versions() []string // of what is measured
	Close() error
}

// measureIn adds those scenarios of a lab to a report that were chosen, each begun on
// a quiet machine.
func measureIn[L lab](
	ctx context.Context, o options, r *report.Report, say func(string, ...any),
	scenarios []report.Scenario[L], open func() (L, error),
) (err error) {
	left := o.left(of(scenarios, ""))
	if len(left) == len(scenarios) {
		return nil
	}
	l, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for _, s := range scenarios {
		if slices.Contains(left, s.Name) {
			continue
		}
		if err := o.awaitQuiet(ctx, r, say); err != nil {
			return fmt.Errorf("cannot measure %s: %w", s.Name, err)
		}
		began := time.Now()
		say("%s begins", s.Name)
		measures, err := s.Measure(l, ctx)
		if err != nil {
			return fmt.Errorf("cannot measure %s: %w", s.Name, err)
		}
		say("%s took %s", s.Name, time.Since(began).Round(time.Second))
		for _, m := range measures {
			m.Section = s.Section
		}
		r.Measures = append(r.Measures, measures...)
	}
	for _, version := range l.Versions() {
		if !slices.Contains(r.Versions, version) {
			r.Versions = append(r.Versions, version)
		}
	}
	return nil
}

// awaitQuiet waits for a quiet machine, unless a busy one will do.
func (o options) awaitQuiet(ctx context.Context, r *report.Report, say func(string, ...any)) error {
	patience := quietPatience
	if o.busy {
		patience = 0
	}
	used, err := measure.AwaitQuiet(ctx, patience)
	r.Busy = max(r.Busy, used)
	if tooMuch := new(measure.BusyError); !errors.As(err, &tooMuch) {
		return err
	}
	if !o.busy {
		return fmt.Errorf("%w; end what else runs, or give -busy for a try", err)
	}
	say("%s", err)
	return nil
}

// write writes the sections of the page that were measured whole.
func (o options) write(r *report.Report, say func(string, ...any)) error {
	if o.markdown == "" {
		return nil
	}
	if o.busy {
		say("%s is as it was, because of -busy", o.markdown)
		return nil
	}
	if r.Stolen > maxStolen {
		return fmt.Errorf("%s is as it was: the hypervisor took %.1f %% of the processor time during the run, "+
			"and %.0f %% may be; measure on a machine that shares its processor less",
			o.markdown, 100*r.Stolen, 100*maxStolen)
	}
	for _, section := range r.Sections() {
		measures := names(section)
		if o.newest {
			measures = of(o.comparisons(), section)
		}
		if missing := o.left(measures); len(missing) > 0 {
			say("section %q of %s is as it was: %s was not measured", section, o.markdown, strings.Join(missing, ", "))
			continue
		}
		if err := r.WriteSection(section, o.markdown); err != nil {
			return err
		}
	}
	return nil
}
