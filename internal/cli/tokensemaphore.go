package cli

import (
	"github.com/urfave/cli/v2"

	"berth/lock"
)

const (
	aboutTokenSemaphore = `In a token semaphore RabbitMQ hands tokens to the waiters, one for each slot:
messages of one queue. Only the waiter that has a token tries its slot. Make the
semaphore before 'berth run --token-semaphore NAME' can find a slot, and change
its size at any time. It needs a broker.
`

	aboutTokenCreate = `Makes the token semaphore NAME with N slots, and a token for each. In one that
has N slots already, makes lost tokens again, and removes those that are there
twice; one that has another number of slots is left alone, with exit status 75.
Its queues are classic ones by default. With --queue-type quorum it survives the
loss of any one node of three.

Examples:
  berth token-semaphore create workers --slots 3
  berth token-semaphore create workers --slots 3 --queue-type quorum
`

	aboutTokenResize = `Changes the number of slots and of tokens, also while they are held. Removes
slots from the highest down: a holder of one ends its command, and queues up for
another slot. With --wait, returns once those commands are dead.

Examples:
  berth token-semaphore resize workers --slots 5
  berth token-semaphore resize workers --remove 2 --wait
`

	aboutTokenDestroy = `Removes all slots of the token semaphore, and its tokens. Holders end their
commands, and wait for it to be made again. With --wait, returns once all
commands are dead.

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
