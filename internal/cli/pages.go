package cli

import (
	"slices"

	"berth/internal/config"
)

// shortHelp is what a bare `berth` prints.
const shortHelp = `berth runs a command only while it holds a lock in RabbitMQ, and has the
command's whole process tree dead before anyone else may start theirs.

  export BERTH_BROKER=amqp://user:password@rabbit.example.com
  berth run --mutex nightly-report -- /usr/bin/report --all

  berth semaphore create workers --slots 3
  berth run --semaphore workers -- /usr/bin/worker

  berth run --broker local --mutex backup --try -- /usr/bin/backup

See 'berth --help' for all commands and 'berth run --help' for all flags.
`

const (
	exitStatusesOfRun = `
Exit status:
  the command's own   it ran and ended by itself; 128+n if signal n ended it
  2    berth crashed, and stderr says why; a command may end with 2 too
  64   wrong usage
  69   no broker could be reached (with --try or --timeout)
  70   another error, such as output that cannot be written, or a fault of berth's own
  75   no slot was obtained (with --try or --timeout)
  76   the slot was lost (with --on-loss exit or --try)
  77   the broker refused the login or a permission; the directory of a
       local lock may not be used
  78   the configuration is invalid or unsafe
  126  the command cannot be executed
  127  the command is not found
`
	exitStatusesOfAction = `
Exit status:
  0    done, or nothing was to be done
  64   wrong usage
  69   the broker could not be reached
  70   another error, such as output that cannot be written
  75   not done: the lock is in another state, somebody else is changing it,
       the broker gave no clear answer, or the time was over
  77   the broker refused the login or a permission; the directory of a
       local lock may not be used
  78   the configuration is invalid
  128+n  signal n ended berth
`
)

// pages are the help pages, by command.
var pages = map[string]page{
	"berth":                          {text: shortHelp + commandList},
	"berth help":                     {text: "Usage: berth help [COMMAND...]\n\nPrints the help page of a command.\n"},
	"berth completion":               {text: completionText},
	"berth version":                  {text: "Usage: berth version\n\nPrints berth's version, and what it was built with and for.\n"},
	"berth run":                      {text: runText, options: runFlags(), end: exitStatusesOfRun},
	"berth semaphore":                {text: semaphoreText},
	"berth semaphore create":         {text: createText, options: actionOptions(createOptions), end: exitStatusesOfAction},
	"berth semaphore resize":         {text: resizeText, options: actionOptions(resizeOptions), end: exitStatusesOfAction},
	"berth semaphore destroy":        {text: destroyText, options: actionOptions(destroyOptions), end: exitStatusesOfAction},
	"berth persistent-mutex":         {text: persistentMutexText},
	"berth persistent-mutex enable":  {text: enableText, options: actionOptions(enableOptions), end: exitStatusesOfAction},
	"berth persistent-mutex disable": {text: disableText, options: actionOptions(destroyOptions), end: exitStatusesOfAction},
	"berth check":                    {text: checkText, options: slices.Concat(checkOptions(), runFlags()), end: exitStatusesOfCheck},
}

// runFlags leaves out what has no flag.
func runFlags() []config.Option {
	return slices.DeleteFunc(config.RunOptions(), func(o config.Option) bool { return o.Flag() == "" })
}

func actionOptions(own []config.Option) []config.Option {
	return slices.Concat(own, config.ConnectionOptions())
}

const commandList = `
Commands:
  berth run                        run a command while holding a lock
  berth semaphore create           make a semaphore
  berth semaphore resize           change its number of slots, also while it is in use
  berth semaphore destroy          remove it
  berth persistent-mutex enable    make a mutex that can be switched off
  berth persistent-mutex disable   switch it off
  berth check                      is a configuration safe, and can the broker carry it
  berth completion SHELL           print what completes this in bash, zsh or fish
  berth version                    print the version
  berth help [COMMAND...]          print a help page, as --help does
`

const runText = `Usage: berth run LOCK [flags] [--] COMMAND [ARG...]
       berth run --config FILE

Waits for a slot of the lock, then runs COMMAND for as long as the slot is held.
When the slot is lost, COMMAND and everything it has started is ended before
anybody else may start theirs, and berth queues up for the next slot.

Examples:
  One instance in the whole cluster, the others stand by:
    berth run --broker amqp://user:password@rabbit --mutex importer -- importer -v

  At most three workers over all hosts:
    berth semaphore create workers --slots 3
    berth run --semaphore workers -- worker

  Only if nobody else is at it, on this host, with no broker:
    berth run --broker local --mutex backup --try -- backup /srv

Every flag can also be set by a variable or in a file; flags override variables,
variables override the file. A broker's password is safest in BERTH_BROKER or in
the file, because other users of the host can see the command line. COMMAND does
not have it in its environment; a process of the same user can still read
berth's own, or the file, from which --user keeps it.
`

const semaphoreText = `Usage: berth semaphore create NAME --slots N
       berth semaphore resize NAME (--slots N | --add X | --remove X) [--wait]
       berth semaphore destroy NAME [--wait]

A semaphore has a fixed number of slots, each for one command at a time. It has
to be made before 'berth run --semaphore NAME' finds a slot; its size can be
changed at any time. See 'berth semaphore create --help' and so on for flags.
`

const createText = `Usage: berth semaphore create NAME --slots N [flags]

Makes the semaphore NAME with N slots. If it is there with N slots already,
it stays as it is; if it has another number of slots, it is left alone. Slots that
an earlier semaphore of this name left behind beyond N are removed.

Example:
  berth semaphore create workers --slots 3
`

const resizeText = `Usage: berth semaphore resize NAME (--slots N | --add X | --remove X) [flags]

Changes the number of slots, also while they are held. Slots are removed from the
highest down; the command of whoever holds one is ended and berth queues up for
another slot. With --wait, returns once the removed slots are vacant.

Examples:
  berth semaphore resize workers --slots 5
  berth semaphore resize workers --remove 2 --wait
`

const destroyText = `Usage: berth semaphore destroy NAME [flags]

Removes all slots of the semaphore. Commands of holders are ended, and berth waits
for the semaphore to be made again. With --wait, returns once all slots are vacant.

Example:
  berth semaphore destroy workers --wait
`

const persistentMutexText = `Usage: berth persistent-mutex enable NAME
       berth persistent-mutex disable NAME [--wait]

A persistent mutex is held by one command at a time while it is enabled, and by
none while it is disabled: a switch for 'berth run --persistent-mutex NAME' on all
hosts at once.
`

const enableText = `Usage: berth persistent-mutex enable NAME [flags]

Makes the mutex NAME available. If it is enabled already, it stays as it is. Slots
that a semaphore of this name left behind are removed.
There is nobody to wait for: --wait is accepted for the sake of scripts that give
both actions the same flags.

Example:
  berth persistent-mutex enable importer
`

const disableText = `Usage: berth persistent-mutex disable NAME [flags]

Switches the mutex NAME off: the command of its holder is ended, nobody starts
another one. With --wait, returns once that has happened.

Example:
  berth persistent-mutex disable importer --wait
`

const completionText = `Usage: berth completion bash|zsh|fish

Prints the script that completes berth's command line in a shell. Packages install
it; otherwise:

  berth completion bash >/usr/share/bash-completion/completions/berth
  berth completion zsh >/usr/share/zsh/vendor-completions/_berth
  berth completion fish >/usr/share/fish/vendor_completions.d/berth.fish
`
