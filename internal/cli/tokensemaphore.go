package cli

import (
	"github.com/urfave/cli/v2"

	"berth/internal/administer"
	"berth/lock"
)

const (
	aboutTokenSemaphore = `A token semaphore is a semaphore whose waiters are handed tokens: messages of
one queue in RabbitMQ, one for each slot. Whoever has a token goes to its slot;
nobody else tries. It has to be made before 'berth run --token-semaphore NAME'
finds a slot; its size can be changed at any time. It needs a broker.
`

	aboutTokenCreate = `Makes the token semaphore NAME with N slots, and a token for each. If it is
there with N slots already, tokens that were lost are made again, and those
that are there twice are removed; if it has another number of slots, it is left
alone.

Example:
  berth token-semaphore create workers --slots 3
`

	aboutTokenResize = `Changes the number of slots and of tokens, also while they are held. Tokens are
added by publishing, and removed by taking them before any waiter. Slots are
removed from the highest down; the command of whoever holds one is ended and
berth queues up for another slot. With --wait, returns once the removed slots
are vacant.

Examples:
  berth token-semaphore resize workers --slots 5
  berth token-semaphore resize workers --remove 2 --wait
`

	aboutTokenDestroy = `Removes all slots of the token semaphore, and its tokens. Commands of holders
are ended, and berth waits for it to be made again. With --wait, returns once
all slots are vacant.

Example:
  berth token-semaphore destroy workers --wait
`
)

func tokenSemaphoreCommand() *cli.Command {
	return command(cli.Command{
		Name:  "token-semaphore",
		Usage: "make a semaphore of tokens, change or remove it",
		UsageText: "berth token-semaphore create NAME --slots N\n" +
			"berth token-semaphore resize NAME (--slots N | --add X | --remove X) [--wait]\n" +
			"berth token-semaphore destroy NAME [--wait]",
		Description: aboutTokenSemaphore,
		Action:      noSubcommand,
		Subcommands: []*cli.Command{
			adminCommand(cli.Command{
				Name:        "create",
				Usage:       "make a semaphore of tokens",
				UsageText:   "berth token-semaphore create NAME --slots N [flags]",
				Description: aboutTokenCreate,
			}, lock.TokenSemaphore, createOptions, (*administer.Action).CreateSemaphore),
			adminCommand(cli.Command{
				Name:        "resize",
				Usage:       "change its size, also while it is in use",
				UsageText:   "berth token-semaphore resize NAME (--slots N | --add X | --remove X) [flags]",
				Description: aboutTokenResize,
			}, lock.TokenSemaphore, resizeOptions, (*administer.Action).ResizeSemaphore),
			adminCommand(cli.Command{
				Name:        "destroy",
				Usage:       "remove it",
				UsageText:   "berth token-semaphore destroy NAME [flags]",
				Description: aboutTokenDestroy,
			}, lock.TokenSemaphore, removalOptions, (*administer.Action).DestroySemaphore),
		},
	}, "")
}
