package cli

import (
	"errors"
	"os"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/logging"
	"berth/internal/runner"
	"berth/supervisor"
)

const aboutRun = `Waits for a slot of the lock, then runs COMMAND for as long as the slot is held.
When the slot is lost, COMMAND and everything it has started is ended before
another holder may start, and berth queues up for the next slot.

Examples:
  One instance in the whole cluster, the others stand by:
    berth run --broker-file rabbit.url --mutex importer -- importer

  At most three workers over all hosts:
    berth semaphore create workers --slots 3
    berth run --semaphore workers -- worker

  Only if it does not run yet, on this host, with no broker:
    berth run --broker local --mutex backup --try -- backup /srv

Every flag can also be set by a variable or in a file; flags override variables,
variables override the file. A broker's password is safest in --password-file,
in BERTH_BROKER or in the file, because other users of the host can see the
command line. COMMAND does not have it in its environment and cannot look into
berth; a process of the same user can still read the file, from which --user
keeps it.
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
	queue := runner.QueueSignals(func(sig syscall.Signal) { os.Exit(supervisor.ExitSignal + int(sig)) })
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
	err = ended(runner.Run(cfg, load, queue, log))
	if cfg.LogFormat == "json" {
		return logged(log, failed(c.Command.HelpName, err))
	}
	return err
}

// ended is the error for how a run ended: exited if there is nothing to say.
func ended(outcome supervisor.Outcome) error {
	switch {
	case outcome.Err == nil:
		return exited(outcome.Status)
	case outcome.Status != 0:
		return &decided{outcome.Err, outcome.Status}
	}
	return outcome.Err
}

// logged has the log say why berth ends, for readers who expect an object in each
// line.
func logged(log hclog.Logger, err error) error {
	var over exited
	if err == nil || errors.As(err, &over) {
		return err
	}
	log.Error(logging.OneLine(err))
	return exited(Status(err))
}
