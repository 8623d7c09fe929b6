package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"berth/internal/config"
	"berth/internal/guard"
	"berth/lock"
	"berth/lock/local"
	"berth/lock/rabbit"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// checkTimeout bounds what --connect does: a working broker answers all of it
// within a tenth of a second, a node that does not answer costs 5 s.
const checkTimeout = 30 * time.Second

// The flags that only `berth check` has.
var (
	connectOption = config.Option{Name: "connect", Group: groupAction, Kind: config.Switch,
		Usage: "Ask the broker too: whether it lets berth in, grants the heartbeat and the permissions that the lock needs, and how its queues behave. For local locks: whether they can be kept in their directory. Disturbs nobody who uses the lock."}
	jsonOption = config.Option{Name: "json", Group: groupAction, Kind: config.Switch,
		Usage: "Print the report as one JSON object."}
)

func checkOptions() []config.Option { return []config.Option{connectOption, jsonOption} }

func checkCmd() *cli.Command {
	return &cli.Command{
		Name:         "check",
		HideHelp:     true,
		Flags:        append(flagsFor(checkOptions()), flagsFor(config.RunOptions())...),
		OnUsageError: usageError,
		Action:       action(checkAction),
	}
}

func checkAction(c *cli.Context) error {
	own := recorded(c, checkOptions())
	connect, err := switched(own, "connect")
	if err != nil {
		return err
	}
	asJSON, err := switched(own, "json")
	if err != nil {
		return err
	}
	cfg, err := config.LoadCheck(config.Input{
		Flags:     recorded(c, config.RunOptions()),
		Command:   c.Args().Slice(),
		LookupEnv: os.LookupEnv,
	})
	if err != nil {
		return err
	}
	r := newReport(cfg)
	switch {
	case connect && cfg.Local:
		err = r.lookAtDirectory()
	case connect:
		err = r.connect(c.Context)
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = r.writeJSON(c.App.Writer)
	} else {
		err = r.writeText(c.App.Writer)
	}
	if err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	if len(r.problems) > 0 {
		return &decided{r.problems[0], Status(errors.Join(r.problems...))}
	}
	return nil
}

// switched reads a switch that may be given once.
func switched(given map[string][]string, name string) (bool, error) {
	text, err := single(given, name)
	if err != nil || text == "" {
		return false, err
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, usagef("--%s %q: is neither true nor false; give --%s alone", name, text, name)
	}
	return on, nil
}

// report is everything that `berth check` says.
type report struct {
	cfg      config.Run
	problems []error  // what keeps the configuration from working, or from being safe
	advice   []string // what else is worth knowing
	broker   *rabbit.Report
}

func newReport(cfg config.Run) *report {
	r := &report{cfg: cfg}
	if !cfg.Local {
		if err := cfg.Timings().Check(); err != nil {
			r.problems = append(r.problems, err)
		}
	}
	if cfg.Lock.Name == "" {
		r.advice = append(r.advice, "no lock is named; 'berth run' needs --mutex, --semaphore or --persistent-mutex")
	}
	if !cfg.Local && len(cfg.Brokers) == 0 {
		r.advice = append(r.advice, "no broker is named; 'berth run' needs --broker or BERTH_BROKER")
	}
	if len(cfg.Command) > 0 {
		if _, err := findCommand(cfg.Command[0]); err != nil {
			r.advice = append(r.advice, "on this host: "+err.Error())
		}
	}
	if cfg.PIDNamespace && !config.Capable(unix.CAP_SYS_ADMIN) {
		r.advice = append(r.advice, "as this user: "+guard.ErrNamespace.Error())
	}
	return r
}

// lookAtDirectory adds whether local locks can be kept where they are to be.
func (r *report) lookAtDirectory() error {
	backend, err := local.New(local.Config{Dir: r.cfg.Directory})
	if err != nil {
		return &mistake{err.Error(), config.ErrInvalid}
	}
	if err := backend.Inspect(r.cfg.Lock); err != nil {
		r.problems = append(r.problems, err)
	}
	return nil
}

// connect adds what the broker says. Its error is one of usage; that the broker
// does not let us in is a finding.
func (r *report) connect(parent context.Context) error {
	switch {
	case len(r.cfg.Brokers) == 0:
		return usagef("--connect: no broker is named; give --broker URL or set BERTH_BROKER")
	case r.cfg.Lock.Name == "":
		return usagef("--connect: no lock is named, and permissions depend on it; give --mutex, --semaphore or --persistent-mutex")
	}
	log, flush := newLogger(r.cfg.Connection)
	defer flush()
	backend, err := rabbit.New(rabbitConfig(r.cfg.Connection, log))
	if err != nil {
		return &mistake{err.Error(), config.ErrInvalid}
	}
	ctx, release := actionContext(parent, actionFlags{timeout: checkTimeout})
	defer release()
	found, err := backend.Inspect(ctx, r.cfg.Lock)
	var ended signalled
	if errors.As(context.Cause(ctx), &ended) {
		return ended
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = lock.Errorf(lock.ErrUnreachable, "the broker did not answer everything within %s (%s); see whether it is well", checkTimeout, err.Error())
	}
	if found.Broker != "" {
		r.broker = &found
	}
	r.problems = slices.Concat(r.problems, found.Problems)
	r.advice = append(r.advice, found.Advice...)
	if err != nil {
		r.problems = append(r.problems, err)
	}
	return nil
}
