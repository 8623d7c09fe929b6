package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/urfave/cli/v2"

	"berth/prover/adapter"
	"berth/prover/campaign"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/report"
	"berth/test/brokertest"
)

var runFlags = []cli.Flag{
	&cli.StringFlag{Name: "adapter", Required: true, Usage: "the `COMMAND` that runs {witness} under the lock {lock}, with " +
		"{broker} and {slots}; split at blanks, without quotes"},
	&cli.StringFlag{Name: "setup", Usage: "a `COMMAND` that makes the lock, with {lock}, {broker} and {slots}"},
	&cli.StringFlag{Name: "broker", Value: "none", Usage: "start (a RabbitMQ of its own), start:4.3 (of that version), an AMQP `URL`, or none"},
	&cli.StringFlag{Name: "workload", Value: "mutex", Usage: "mutex, or permits with --slots"},
	&cli.IntFlag{Name: "slots", Value: 1, Usage: "how many may hold at once"},
	&cli.IntFlag{Name: "clients", Value: 5, Usage: "how many contend"},
	&cli.StringFlag{Name: "faults", Usage: "what is broken, such as kill,cut; all: whatever can be here"},
	&cli.StringFlag{Name: "commands", Value: "plain", Usage: "plain, stubborn (they ignore TERM) or forking (and start chains of processes)"},
	&cli.DurationFlag{Name: "time", Value: 30 * time.Second, Usage: "for how long"},
	&cli.Uint64Flag{Name: "seed", Usage: "of the faults; default: any"},
	&cli.StringFlag{Name: "slot-variable", Value: "BERTH_SLOT", Usage: "the variable that tells a command its slot, a number from 1"},
	&cli.StringFlag{Name: "term-variable", Value: "BERTH_TERM", Usage: "the variable that tells a command its term, a number that grows"},
	&cli.StringFlag{Name: "history", Usage: "write the history to a `FILE`, as lines of JSON"},
}

func runAction(c *cli.Context) (err error) {
	cfg, err := configure(c)
	if err != nil {
		return err
	}
	if err := writable(c); err != nil {
		return err
	}
	broker, err := startBroker(c.Context, c.String("broker"), &cfg)
	if err != nil {
		return err
	}
	if broker != nil {
		defer func() { err = errors.Join(err, broker.Stop()) }()
	}
	there := fault.Client
	if cfg.Broker != nil {
		there = fault.Broker
	} else if cfg.Server != nil {
		there = fault.Link
	}
	if cfg.Faults, err = fault.Named(c.String("faults"), there); err != nil {
		return err
	}
	if err := setUp(c, cfg.Values); err != nil {
		return err
	}
	began := time.Now()
	h, tried := campaign.Run(c.Context, cfg)
	if path := c.String("history"); path != "" {
		tried = errors.Join(tried, writeHistory(path, h))
	}
	if len(judge.Runs(h)) == 0 {
		return tried
	}
	err = conclude(c, report.Report{Seed: cfg.Seed, Began: began, History: h}, cfg.Slots)
	if tried != nil && !errors.Is(err, errViolated) { // what was seen until then proves no promise, but may break one
		return tried
	}
	return err
}

// configure reads the flags, but for what needs a broker.
func configure(c *cli.Context) (campaign.Config, error) {
	cfg := campaign.Config{
		Slots: c.Int("slots"), Clients: c.Int("clients"), Time: c.Duration("time"), Progress: c.Duration("progress"),
		Seed: c.Uint64("seed"), Mode: c.String("commands"),
		SlotVariable: c.String("slot-variable"), TermVariable: c.String("term-variable"),
	}
	if !c.IsSet("seed") {
		cfg.Seed = rand.Uint64N(1_000_000)
	}
	cfg.Values = adapter.Values{adapter.Slots: fmt.Sprint(cfg.Slots),
		adapter.Lock: fmt.Sprintf("prove-%d-%d", os.Getpid(), time.Now().Unix())}
	var err error
	cfg.Adapter, err = adapter.Parse(c.String("adapter"), adapter.Lock, adapter.Broker, adapter.Slots, adapter.Witness)
	switch workload := c.String("workload"); {
	case err != nil:
	case c.NArg() > 0:
		err = fmt.Errorf("run takes no argument %q; is --adapter quoted?", c.Args().First())
	case !cfg.Adapter.Has(adapter.Witness):
		err = fmt.Errorf("the adapter %q runs nothing: it needs %s", c.String("adapter"), adapter.Witness)
	case workload != "mutex" && workload != "permits":
		err = fmt.Errorf("there is no workload %q; berth-prove list prints all", workload)
	case cfg.Slots < 1 || workload == "mutex" && cfg.Slots > 1:
		err = fmt.Errorf("--slots %d: a mutex has one, permits have one or more", cfg.Slots)
	case cfg.Clients < 1 || cfg.Time <= 0 || cfg.Progress <= 0:
		err = errors.New("--clients, --time and --progress must be above 0")
	case cfg.Mode != "plain" && cfg.Mode != "stubborn" && cfg.Mode != "forking":
		err = fmt.Errorf("--commands %s: it must be plain, stubborn or forking", cfg.Mode)
	case cfg.Adapter.Has(adapter.Broker) && c.String("broker") == "none":
		err = fmt.Errorf("the adapter needs %s; give it one, such as --broker start", adapter.Broker)
	}
	return cfg, err
}

// startBroker starts a broker if one is wanted, which the caller stops, and puts into cfg where it is.
func startBroker(ctx context.Context, wanted string, cfg *campaign.Config) (*brokertest.Broker, error) {
	kind, version, _ := strings.Cut(wanted, ":")
	switch {
	case wanted == "none":
		return nil, nil
	case kind != "start":
		return nil, cfgServer(cfg, wanted)
	}
	if dir, err := filepath.Abs(filepath.Join("dist/brokers", version, "bin")); version != "" && err == nil {
		if _, err := os.Stat(dir); err == nil {
			os.Setenv("BERTH_TEST_BROKER", dir)
		}
	}
	broker, err := brokertest.Start(ctx)
	if err != nil {
		return nil, err
	}
	err = cfgServer(cfg, broker.URL())
	if is := broker.Version(); err == nil && !strings.HasPrefix(is+".", version+".") && version != "" {
		err = fmt.Errorf("RabbitMQ %s is installed, and not %s: scripts/brokers.sh %s installs that below dist/brokers", is,
			version, version)
	}
	if err != nil {
		return nil, errors.Join(err, broker.Stop())
	}
	cfg.Broker = broker
	return broker, nil
}

// cfgServer puts the URL of a broker into cfg. Only connections without TLS go through relays: those with it are to a
// name.
func cfgServer(cfg *campaign.Config, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return errors.New("--broker must be start, start:VERSION, an amqp:// URL, or none")
	}
	cfg.Values[adapter.Broker] = text
	if u.Scheme != "amqp" {
		return nil
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "5672")
	}
	cfg.Server = u
	return nil
}

// setUp makes the lock.
func setUp(c *cli.Context, values adapter.Values) error {
	line := c.String("setup")
	if line == "" {
		return nil
	}
	words, err := adapter.Parse(line, adapter.Lock, adapter.Broker, adapter.Slots)
	if err != nil {
		return err
	}
	const limit = time.Minute
	setup, err := words.With(values).Start(os.Environ(), os.Stderr)
	if err != nil {
		return err
	}
	select {
	case <-setup.Done():
	case <-c.Context.Done():
	case <-time.After(limit):
	}
	setup.End(0)
	if _, status := setup.Until(); status != 0 {
		return fmt.Errorf("setup %q ended with status %d", line, status)
	}
	return nil
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
