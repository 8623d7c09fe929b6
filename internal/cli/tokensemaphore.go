package cli

import (
	"github.com/urfave/cli/v2"

	"berth/lock"
)

const (
	aboutTokenSemaphore = `A token semaphore is a semaphore whose waiters are handed tokens: messages of
one queue in RabbitMQ, one for each slot. The waiter that has a token goes to
its slot; no other tries. Make it before 'berth run --token-semaphore NAME', and
change its size at any time. It needs a broker.
`

	aboutTokenCreate = `Makes the token semaphore NAME with N slots, and a token for each. If it is
there with N slots already, tokens that were lost are made again, and those
that are there twice are removed; if it has another number of slots, it is left
alone. Its queues are classic ones, unless --queue-type is quorum: then it
survives the loss of any one node of three.

Examples:
  berth token-semaphore create workers --slots 3
  berth token-semaphore create importer --slots 1 --queue-type quorum
`

	aboutTokenResize = `Changes the number of slots and of tokens, also while they are held. Tokens are
added by publishing, and removed by taking them before any waiter. Slots are
removed from the highest down; the command of a slot's holder is ended and
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
	return sized{
		kind: lock.TokenSemaphore, what: "a semaphore of tokens", about: aboutTokenSemaphore, create: aboutTokenCreate,
		resize: aboutTokenResize, destroy: aboutTokenDestroy,
	}.command()
}
