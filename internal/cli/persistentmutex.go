package cli

import (
	"github.com/urfave/cli/v2"

	"berth/internal/administer"
	"berth/internal/config"
	"berth/lock"
)

const (
	aboutPersistentMutex = `A persistent mutex has one holder at a time while it is enabled, and none while
it is disabled: a switch for 'berth run --persistent-mutex NAME' on all hosts at
once.
`

	aboutEnable = `Makes the mutex NAME available. One that is enabled already stays as it is.
Removes slots that a semaphore of this name left behind. There is nothing to
wait for: --wait is for scripts that give both actions the same flags. With
--queue-type quorum it survives the loss of any one node of three.

Examples:
  berth persistent-mutex enable importer
  berth persistent-mutex enable importer --queue-type quorum
`

	aboutDisable = `Switches the mutex NAME off: its holder ends the command, and no berth starts
another one. With --wait, returns once that command is dead.

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
