package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/urfave/cli/v2"

	"berth/prover/adapter"
	"berth/prover/campaign"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/report"
)

var runFlags = []cli.Flag{
	&cli.StringFlag{Name: "adapter", Usage: "the `COMMAND` that runs {witness} under the lock {lock}, with " +
		"{broker} and {slots}; split at whitespace, without quotes"},
	&cli.StringFlag{Name: "setup", Usage: "a `COMMAND` that makes the lock, with {lock}, {broker} and {slots}"},
	&cli.StringFlag{Name: "broker", Value: "none", Usage: "start (the RabbitMQ that is installed), start:4.3 (that of " +
		"dist/brokers/4.3), a `URL`, or none"},
	&cli.IntFlag{Name: "slots", Value: 1, Usage: "how many may hold at once"},
	&cli.IntFlag{Name: "clients", Value: 5, Usage: "how many contend"},
	&cli.IntFlag{Name: "nodes", Value: 1, Usage: "how many nodes --broker start starts"},
	&cli.StringFlag{Name: "faults", Usage: "what is broken, such as kill,cut; all: whatever is possible here, your own included (default: nothing)"},
	&cli.StringSliceFlag{Name: "fault", Usage: "`NAME=COMMAND`, a fault of that name: a command that breaks something within a " +
		"minute, with {lock}, {broker} and {slots}; repeatable"},
	&cli.IntFlag{Name: "at-once", Value: 1, Usage: "how many faults may last at once"},
	&cli.StringSliceFlag{Name: "allow", Value: cli.NewStringSlice("freeze=overlap", "freeze=permits", "freeze=terms",
		"freeze=updates"), Usage: "`FAULT=CHECKER`: " +
		"what the fault makes the checker find is a limit, and no violation; repeatable"},
	&cli.StringFlag{Name: "commands", Value: "plain", Usage: "plain, stubborn (they ignore TERM) or forking (stubborn, and they start chains of processes)"},
	&cli.DurationFlag{Name: "work", Value: 30 * time.Second, Usage: "how long the longest commands work: one in five for half of " +
		"that at least, others for up to 3s"},
	&cli.DurationFlag{Name: "time", Value: 30 * time.Second, Usage: "for how long faults strike"},
	&cli.DurationFlag{Name: "calm", Usage: "for how long nothing is broken once a command has run"},
	&cli.BoolFlag{Name: "until-violated", Usage: "end with the first violation"},
	&cli.Uint64Flag{Name: "seed", Usage: "of the faults, and of how long commands work", DefaultText: "any"},
	&cli.StringFlag{Name: "slot-variable", Value: "BERTH_SLOT", Usage: "the variable that tells a command its slot, a number from 1"},
	&cli.StringFlag{Name: "term-variable", Value: "BERTH_TERM", Usage: "the variable that tells a command its term, a number that grows"},
	&cli.StringFlag{Name: "history", Usage: "write the history to a `FILE`, as lines of JSON"},
	&cli.StringFlag{Name: "logs", Usage: "keep what clients print in a `DIRECTORY`, a file each"},
}

// interruptible has a signal end campaigns, until the program ends: all that follows is to clean up, and takes some seconds.
func interruptible(do func(*cli.Context) (judge.Outcome, error)) func(*cli.Context) (judge.Outcome, error) {
	return func(c *cli.Context) (judge.Outcome, error) {
		c.Context, _ = signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		context.AfterFunc(c.Context, func() { fmt.Fprintln(os.Stderr, "berth-prove: ending what it has started, in some seconds") })
		return do(c)
	}
}

func runAction(c *cli.Context) (judge.Outcome, error) {
	if c.NArg() > 0 {
		return "", fmt.Errorf("run takes no argument %q; is --adapter quoted?", c.Args().First())
	}
	r, err := contend(c, nil, 0)
	return finish(c, r, err)
}

// contend runs a campaign, by a script and without the first clients if wanted.
func contend(c *cli.Context, script []campaign.Plan, skip int) (r report.Report, err error) {
	cfg, err := configure(c)
	if err != nil {
		return r, err
	}
	if err := writable(c); err != nil {
		return r, err
	}
	cfg.Script, cfg.Skip = script, skip
	own, err := ownFaults(c, cfg.Values)
	if err != nil {
		return r, err
	}
	if cfg.Allows, err = allowed(c, own); err != nil {
		return r, err
	}
	if err := startBroker(c, &cfg); err != nil {
		return r, err
	}
	most := fault.Client
	if cfg.Cluster != nil {
		defer func() { err = errors.Join(err, cfg.Cluster.Stop()) }()
		most = fault.Broker
		if len(cfg.Cluster.Nodes) > 1 {
			most = fault.Nodes
		}
	} else if cfg.Servers != nil {
		most = fault.Link
	}
	if cfg.Faults, err = fault.Named(c.String("faults"), most, own...); err != nil {
		return r, err
	}
	for i, p := range script { // of which all faults are named
		at := slices.IndexFunc(cfg.Faults, func(f fault.Fault) bool { return f.Name == p.Fault.Name })
		script[i].Fault = cfg.Faults[at]
	}
	if err := setUp(c, cfg.Values); err != nil {
		return r, err
	}
	r = report.Report{Command: commandLine(), Seed: cfg.Seed, Began: time.Now(), Flags: flags(c)}
	r.Flags["seed"] = []string{fmt.Sprint(cfg.Seed)}
	if !c.IsSet("seed") {
		r.Command += fmt.Sprint(" --seed ", cfg.Seed)
	}
	r.History, err = campaign.Run(c.Context, cfg)
	if early := time.Since(r.Began) < cfg.Time; err == nil && early && !cfg.Enough(r.History) {
		err = errors.New("what seemed to be violated was not, as was seen later: run it again")
	}
	return r, err
}

// flags returns the values of all flags of a run that a replay needs: what it writes, it writes elsewhere.
func flags(c *cli.Context) map[string][]string {
	values := map[string][]string{}
	for _, f := range slices.Concat(runFlags, boundFlags[:2]) {
		switch name, value := f.Names()[0], c.Value(f.Names()[0]); list := value.(type) {
		case cli.StringSlice:
			values[name] = list.Value()
		default:
			values[name] = []string{fmt.Sprint(value)}
		}
	}
	delete(values, "history")
	delete(values, "logs")
	return values
}

// finish writes the history and concludes, also of a campaign that failed: that proves no promise, but may break one.
func finish(c *cli.Context, r report.Report, err error) (found judge.Outcome, _ error) {
	if path := c.String("history"); path != "" {
		err = errors.Join(err, writeHistory(path, r.History))
	}
	if len(judge.Runs(r.History)) > 0 {
		var failed error
		found, failed = conclude(c, r)
		err = errors.Join(err, failed)
	}
	return found, err
}

// configure reads the flags, but for what needs a broker.
func configure(c *cli.Context) (campaign.Config, error) {
	cfg := campaign.Config{
		Slots: c.Int("slots"), Clients: c.Int("clients"), Seed: c.Uint64("seed"), Mode: c.String("commands"), Logs: c.String("logs"),
		Time: c.Duration("time"), Work: c.Duration("work"), Progress: c.Duration("progress"), Orphan: judge.Orphan,
		SlotVariable: c.String("slot-variable"), TermVariable: c.String("term-variable"), Calm: c.Duration("calm"),
		AtOnce: c.Int("at-once"),
	}
	names, err := checkers(c)
	if c.Bool("until-violated") {
		cfg.Enough = func(h history.History) bool {
			return outcome(judge.Judge(h, bounds(c), names...)) == judge.Violated
		}
	}
	if !c.IsSet("seed") {
		cfg.Seed = rand.Uint64N(1_000_000)
	}
	cfg.Values = adapter.Values{adapter.Slots: fmt.Sprint(cfg.Slots),
		adapter.Lock: fmt.Sprintf("prove-%d-%d", os.Getpid(), time.Now().UnixMilli())}
	var unreadable error
	cfg.Adapter, unreadable = adapter.Parse(c.String("adapter"), adapter.Lock, adapter.Broker, adapter.Slots, adapter.Witness)
	switch {
	case err != nil:
	case c.String("adapter") == "":
		err = errors.New("name the lock: --adapter \"COMMAND {lock} {witness}\"")
	case unreadable != nil:
		err = unreadable
	case !cfg.Adapter.Has(adapter.Witness):
		err = fmt.Errorf("the adapter %q runs nothing: it needs %s", c.String("adapter"), adapter.Witness)
	case cfg.Slots < 1 || cfg.Clients < 1 || cfg.Time <= 0 || cfg.Progress <= 0 || cfg.AtOnce < 1 || c.Int("nodes") < 1:
		err = errors.New("--slots, --clients, --time, --progress, --at-once and --nodes must be above 0")
	case cfg.Clients <= cfg.Slots:
		err = fmt.Errorf("--clients %d with --slots %d: where there is a slot for each client, a slot that is lost is not missed; "+
			"give --clients %d or more", cfg.Clients, cfg.Slots, cfg.Slots+1)
	case c.Int("bypass") < 0:
		err = errors.New("--bypass must be above 0")
	case cfg.Calm < 0 || cfg.Calm >= cfg.Time:
		err = fmt.Errorf("--calm %s: it must be less than --time %s, or nothing is ever broken", cfg.Calm, cfg.Time)
	case cfg.Work < time.Second:
		err = fmt.Errorf("--work %s: it must be 1s or more", cfg.Work)
	case cfg.Mode != "plain" && cfg.Mode != "stubborn" && cfg.Mode != "forking":
		err = fmt.Errorf("--commands %s: it must be plain, stubborn or forking", cfg.Mode)
	case cfg.Adapter.Has(adapter.Broker) != (c.String("broker") != "none"):
		err = fmt.Errorf("%s in --adapter goes with --broker, such as --broker start: give both or none", adapter.Broker)
	case c.Int("nodes") > 1 && !strings.HasPrefix(c.String("broker"), "start"):
		err = errors.New("--nodes goes with --broker start")
	}
	return cfg, err
}

func writeHistory(path string, h history.History) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("cannot write the history: %w", err)
	}
	return errors.Join(history.Write(file, h), file.Close())
}

// commandLine is what finds it again.
func commandLine() string { return "berth-prove " + shellescape.QuoteCommand(os.Args[1:]) }
