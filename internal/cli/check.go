package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"berth/internal/check"
	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/guard"
	"berth/internal/identity"
	"berth/internal/interrupt"
	"berth/internal/logging"
	"berth/internal/runner"
	"berth/supervisor"
)

const aboutCheck = `Takes the settings of 'berth run' and reports whether they are safe: whether the
command is certainly dead before another holder can start. Draws what happens
when, and how long a failover takes. With --connect it asks the broker, too, and
with --management-url its management plugin, for what the broker does not show.

Examples:
  berth check --config /etc/berth/importer.hcl --connect
  berth check --mutex importer --connect --management-url http://rabbit:15672
  berth check --heartbeat 10s --loss "TERM 10s, KILL"
`

// The flags that only `berth check` has.
var checkOptions = []config.Option{
	flagOnly("connect", "", config.Switch,
		"Ask the broker, too: whether it accepts the login, grants the heartbeat and the permissions that the lock "+
			"needs, and how its queues behave. For local locks: whether their directory can be used. Disturbs no user "+
			"of the lock."),
	flagOnly("management-url", "URL", config.Text,
		"Ask RabbitMQ's management API at http://HOST:15672, or https://, for what AMQP does not show, with --connect: "+
			"policies that harm the lock, the nodes of the cluster, and which other users may write to the lock's queues. "+
			"Its login is that of --broker, unless the URL has one."),
	flagOnly("json", "", config.Switch, "Print the report as one JSON object."),
}

func checkCommand() *cli.Command {
	return command(cli.Command{
		Name:  "check",
		Usage: "is a configuration safe, and the broker fit",
		UsageText: "berth check [LOCK] [--connect [--management-url URL]] [--json] [flags] [--] [COMMAND...]\n" +
			"berth check --config FILE [--connect [--management-url URL]]",
		Description: aboutCheck,
		Flags:       append(flags.For(checkOptions), flags.For(config.RunOptions())...),
		Action:      checkAction,
	}, exitStatusesOfCheck)
}

func checkAction(c *cli.Context) error {
	own := flags.Read(flags.Given(c, checkOptions))
	connect, asJSON := own.Switch("connect"), own.Switch("json")
	api := own.URL("management-url", "http", "https")
	if err := own.Err(); err != nil {
		return err
	}
	if api != "" && !connect {
		return config.Usagef("--management-url is for --connect; leave it out, or add --connect")
	}
	if only := c.Args().Slice(); len(only) == 1 && strings.HasSuffix(only[0], ".hcl") && !c.IsSet("config") {
		return config.Usagef("%s would be the command to run; write --config %[1]s to check that file", only[0])
	}
	cfg, err := config.LoadCheck(config.Input{
		Flags:     flags.Given(c, config.RunOptions()),
		Command:   c.Args().Slice(),
		LookupEnv: os.LookupEnv,
	})
	if err != nil {
		return err
	}
	r := check.New(cfg)
	r.Warnings = append(missingHere(cfg), cfg.Warnings...)
	switch {
	case api != "" && cfg.Local:
		err = config.Usagef("--management-url is a broker's; leave it out for locks of this host")
	case connect && cfg.Local:
		err = r.LookAtDirectory()
	case connect:
		err = askBroker(c.Context, r, cfg, api)
	default:
		r.AdviseOnNodes()
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = r.WriteJSON(c.App.Writer)
	} else {
		err = r.WriteText(c.App.Writer)
	}
	if err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	if len(r.Problems) > 0 {
		return supervisor.Exit{Status: Status(errors.Join(r.Problems...)), Err: r.Problems[0]}
	}
	return nil
}

// missingHere is what `berth run` would object to on this host.
func missingHere(cfg config.Run) (all []string) {
	if len(cfg.Command) > 0 {
		if _, err := runner.FindCommand(cfg.Command[0]); err != nil {
			all = append(all, "on this host: "+err.Error())
		}
	}
	for _, hook := range slices.Sorted(maps.Keys(cfg.Hooks)) {
		if _, err := runner.FindCommand(cfg.Hooks[hook][0]); err != nil {
			all = append(all, fmt.Sprintf("on this host: %s: %v", hook, err))
		}
	}
	if check := cfg.Health.Command; check != nil {
		if _, err := runner.FindCommand(check[0]); err != nil {
			all = append(all, fmt.Sprintf("on this host: health_command: %v", err))
		}
	}
	if err := runner.CheckRights(cfg); err != nil {
		all = append(all, "on this host: "+err.Error())
	}
	if cfg.PIDNamespace && !identity.Capable(unix.CAP_SYS_ADMIN) {
		all = append(all, "as this user: "+guard.ErrNamespace.Error())
	}
	return all
}

// askBroker fails if no broker is named, and on a signal; that the broker
// does not let us in is a finding.
func askBroker(parent context.Context, r *check.Report, cfg config.Run, api string) error {
	switch {
	case len(cfg.Brokers) == 0:
		return config.Usagef("--connect: no broker is named; give --broker URL or set BERTH_BROKER")
	case cfg.Lock.Name == "":
		return config.Usagef("--connect: no lock is named, and permissions depend on it; give %s", config.LockFlags())
	}
	log, flush := logging.New(cfg.Connection)
	defer flush()
	ctx, release := interrupt.Context(parent, check.Timeout)
	defer release()
	err := r.AskBroker(ctx, log, api)
	if signalled := (interrupt.Signalled{}); errors.As(context.Cause(ctx), &signalled) {
		return signalled
	}
	return err
}
