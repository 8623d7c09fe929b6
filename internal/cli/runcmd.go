package cli

import (
	"os"

	"berth/internal/config"

	"github.com/urfave/cli/v2"
)

func runCmd() *cli.Command {
	return &cli.Command{
		Name:         "run",
		HideHelp:     true,
		Flags:        flagsFor(config.RunOptions()),
		OnUsageError: usageError,
		Action:       action(runAction),
	}
}

func runAction(c *cli.Context) error {
	queue := queueSignals()
	defer queue.end()
	cfg, err := config.Load(config.Input{
		Flags:     recorded(c, config.RunOptions()),
		Command:   c.Args().Slice(),
		LookupEnv: os.LookupEnv,
	})
	if err != nil {
		return err
	}
	log, flush := newLogger(cfg.Connection)
	defer flush()
	err = runCommand(cfg, queue, log)
	if cfg.LogFormat == "json" {
		return logged(log, failed(c.Command.HelpName, err))
	}
	return err
}
