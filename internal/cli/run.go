package cli

import (
	"os"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/guard/launch"
	"berth/internal/logging"
	"berth/internal/runner"
	"berth/supervisor"
)

const aboutRun = `Waits for a slot of the lock, and runs COMMAND for as long as it holds the slot.
When the slot is lost, COMMAND and everything it has started is dead before
another holder may start, and berth queues up for the next slot.

Examples:
  One instance in the whole cluster, the others stand by:
    berth run --broker-file rabbit.url --mutex importer -- importer

  At most three workers over all hosts:
    berth semaphore create workers --slots 3
    berth run --semaphore workers -- worker

  On this host, without a broker, unless a backup is running already:
    berth run --broker local --mutex backup --try -- backup /srv

Set a flag by its variable or in the file, too: flags override variables,
variables override the file. A variable separates the values of a repeatable
flag by spaces or commas. Keep the broker's password off the command line, which
other users of the host can see: --password-file is safest, then the file or
BERTH_BROKER. COMMAND does not find it in its environment or in berth; --user
keeps COMMAND from reading the file as well.
`

func runCommand() *cli.Command {
	return command(cli.Command{
		Name:  "run",
		Usage: "run a command while holding a lock",
		UsageText: "berth run LOCK [flags] [--] COMMAND [ARG...]\n" +
			"berth run --config FILE",
		Description: aboutRun,
		Flags:       flags.For(config.RunOptions()),
		Action:      runAction,
	}, exitStatusesOfRun)
}

func runAction(c *cli.Context) error {
	queue := runner.QueueSignals(func(sig syscall.Signal) {
		launch.Drop()
		os.Exit(supervisor.ExitSignal + int(sig))
	})
	defer queue.End()
	load := func() (config.Run, error) {
		return config.Load(config.Input{
			Flags:     flags.Given(c, config.RunOptions()),
			Command:   c.Args().Slice(),
			LookupEnv: os.LookupEnv,
		})
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	cfg.Version = version
	log, flush := logging.New(cfg.Connection)
	defer flush()
	err = runner.Run(cfg, load, queue, log)
	if cfg.LogFormat == "json" {
		return logged(log, failed(c.Command.HelpName, err))
	}
	return err
}

// logged has the log say why berth ends, for readers who expect an object in each
// line.
func logged(log hclog.Logger, err error) error {
	if said(err) {
		return err
	}
	log.Error(logging.OneLine(err))
	return supervisor.Exit{Status: Status(err)}
}
