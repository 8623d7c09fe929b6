package cli

import (
	"slices"

	"github.com/urfave/cli/v2"

	"berth/internal/administer"
	"berth/lock"
)

const (
	aboutSemaphore = `A semaphore has a number of slots, each for one command at a time. Make it
before 'berth run --semaphore NAME' can find a slot, and change its size at any
time. See 'berth semaphore create --help' and so on for flags.
`

	aboutCreate = `Makes the semaphore NAME with N slots. One that has N slots already stays as it
is; one that has another number of slots is left alone, with exit status 75.
Removes slots that an earlier semaphore of this name left behind beyond N.
With --queue-type quorum it survives the loss of any one node of three.

Examples:
  berth semaphore create workers --slots 3
  berth semaphore create workers --slots 3 --queue-type quorum
`

	aboutResize = `Changes the number of slots, also while they are held. Removes slots from the
highest down: a holder of one ends its command, and queues up for another slot.
With --wait, returns once those commands are dead.

Examples:
  berth semaphore resize workers --slots 5
  berth semaphore resize workers --remove 2 --wait
`

	aboutDestroy = `Removes all slots of the semaphore. Holders end their commands, and wait for the
semaphore to be made again. With --wait, returns once all commands are dead.

Slots go from the highest down, so that an interruption leaves no gap. With
--ascending the lowest goes first: from then on waiters get no slot, and the
other slots stay with their holders until it is their turn. Leftovers beyond the
last slot go, too.

Examples:
  berth semaphore destroy workers --wait
  berth semaphore destroy workers --ascending
`
)

func semaphoreCommand() *cli.Command {
	return sized{
		kind: lock.Semaphore, what: "a semaphore", about: aboutSemaphore, create: aboutCreate, resize: aboutResize,
		destroy: aboutDestroy, ascending: true,
	}.command()
}

// sized describes the commands that make a kind of lock with several slots, change and remove it.
type sized struct {
	kind lock.Kind
	what string // of that kind

	about, create, resize, destroy string // what their pages say

	ascending bool // it can be removed from the lowest slot on
}

func (s sized) command() *cli.Command {
	berth, destroyed := "berth "+string(s.kind), removalOptions
	ascending := ""
	if s.ascending {
		ascending, destroyed = "[--ascending] ", append(slices.Clone(destroyed), ascendingOption)
	}
	return command(cli.Command{
		Name:  string(s.kind),
		Usage: "make " + s.what + ", change or remove it",
		UsageText: berth + " create NAME --slots N\n" +
			berth + " resize NAME (--slots N | --add X | --remove X) [--wait]\n" +
			berth + " destroy NAME " + ascending + "[--wait]",
		Description: s.about,
		Action:      noSubcommand,
		Subcommands: []*cli.Command{
			adminCommand(cli.Command{
				Name:        "create",
				Usage:       "make " + s.what,
				UsageText:   berth + " create NAME --slots N [flags]",
				Description: s.create,
			}, s.kind, createOptions, (*administer.Action).CreateSemaphore),
			adminCommand(cli.Command{
				Name:        "resize",
				Usage:       "change its size, also while it is in use",
				UsageText:   berth + " resize NAME (--slots N | --add X | --remove X) [flags]",
				Description: s.resize,
			}, s.kind, resizeOptions, (*administer.Action).ResizeSemaphore),
			adminCommand(cli.Command{
				Name:        "destroy",
				Usage:       "remove it",
				UsageText:   berth + " destroy NAME [flags]",
				Description: s.destroy,
			}, s.kind, destroyed, (*administer.Action).DestroySemaphore),
		},
	}, "")
}
