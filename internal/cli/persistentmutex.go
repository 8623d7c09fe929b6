package cli

import (
	"context"
	"errors"
	"fmt"

	"berth/internal/config"
	"berth/lock"

	"github.com/urfave/cli/v2"
)

func persistentMutexCmd() *cli.Command {
	return &cli.Command{
		Name:         "persistent-mutex",
		HideHelp:     true,
		OnUsageError: usageError,
		Action:       action(noSubcommand),
		Subcommands: []*cli.Command{
			adminCmd("enable", lock.PersistentMutex, enableOptions, enableMutex),
			adminCmd("disable", lock.PersistentMutex, destroyOptions, disableMutex),
		},
	}
}

// enableOptions has --wait so that scripts can give both actions the same
// flags; enabling removes leftovers at most, and does not wait for their holders.
var enableOptions = []config.Option{waitOption, timeoutOption}

// errConflict: what is there contradicts what was asked for.
var errConflict = errors.New("not changed")

func enableMutex(ctx context.Context, a *administration) error {
	before, _, err := a.change(ctx, defaultOvershoot, func(present int) (int, error) {
		if present > 1 {
			return 0, fmt.Errorf("%w: %q exists as a semaphore of %s; choose another name, or use --semaphore",
				errConflict, a.id.Name, slots(present))
		}
		return 1, nil
	})
	switch {
	case err != nil:
		return err
	case before == 1:
		return a.say("enabled already")
	}
	return a.say("enabled")
}

func disableMutex(ctx context.Context, a *administration) error {
	before, _, err := a.change(ctx, a.flags.overshoot, func(present int) (int, error) {
		if present > 1 {
			return 0, fmt.Errorf("%w: %q is a semaphore of %s; to remove it use: %s",
				errConflict, a.id.Name, slots(present), a.commandLine("berth semaphore destroy"))
		}
		return 0, nil
	})
	switch {
	case err != nil:
	case before == 0:
		err = a.say("disabled already")
	default:
		err = a.say("disabled")
	}
	if err != nil {
		return err
	}
	return a.awaitVacant(ctx, 0, before)
}
