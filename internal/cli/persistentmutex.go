package cli

import (
	"github.com/urfave/cli/v2"

	"berth/internal/administer"
	"berth/internal/config"
	"berth/lock"
)

const (
	aboutPersistentMutex = `A persistent mutex is held by one command at a time while it is enabled, and by
none while it is disabled: a switch for 'berth run --persistent-mutex NAME' on
all hosts at once.
`

	aboutEnable = `Makes the mutex NAME available. If it is enabled already, it stays as it is.
Slots that a semaphore of this name left behind are removed. There is nothing to
wait for: --wait is accepted for the sake of scripts that give both actions the
same flags.

Example:
  berth persistent-mutex enable importer
`

	aboutDisable = `Switches the mutex NAME off: the command of its holder is ended, and no other
is started. With --wait, returns once that has happened.

Example:
  berth persistent-mutex disable importer --wait
`
)

// enableOptions has --wait so that scripts can give both actions the same
// flags; enabling removes leftovers at most, and does not wait for their holders.
var enableOptions = []config.Option{waitOption, timeoutOption}

func persistentMutexCommand() *cli.Command {
	return command(cli.Command{
		Name:  "persistent-mutex",
		Usage: "make a mutex that can be switched off, and switch it off",
		UsageText: "berth persistent-mutex enable NAME\n" +
			"berth persistent-mutex disable NAME [--wait]",
		Description: aboutPersistentMutex,
		Action:      noSubcommand,
		Subcommands: []*cli.Command{
			adminCommand(cli.Command{
				Name:        "enable",
				Usage:       "make a mutex that can be switched off",
				UsageText:   "berth persistent-mutex enable NAME [flags]",
				Description: aboutEnable,
			}, lock.PersistentMutex, enableOptions, (*administer.Action).EnableMutex),
			adminCommand(cli.Command{
				Name:        "disable",
				Usage:       "switch it off",
				UsageText:   "berth persistent-mutex disable NAME [flags]",
				Description: aboutDisable,
			}, lock.PersistentMutex, removalOptions, (*administer.Action).DisableMutex),
		},
	}, "")
}
