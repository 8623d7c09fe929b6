package cli

import (
	"context"
	"fmt"
	"strings"

	"berth/internal/config"
	"berth/lock"

	"github.com/urfave/cli/v2"
)

func semaphoreCmd() *cli.Command {
	return &cli.Command{
		Name:         "semaphore",
		HideHelp:     true,
		OnUsageError: usageError,
		Action:       action(noSubcommand),
		Subcommands: []*cli.Command{
			adminCmd("create", lock.Semaphore, createOptions, createSemaphore),
			adminCmd("resize", lock.Semaphore, resizeOptions, resizeSemaphore),
			adminCmd("destroy", lock.Semaphore, destroyOptions, destroySemaphore),
		},
	}
}

var (
	createOptions  = []config.Option{slotsOption, createTimeoutOption}
	resizeOptions  = []config.Option{slotsOption, addOption, removeOption, waitOption, overshootOption, timeoutOption}
	destroyOptions = []config.Option{waitOption, overshootOption, timeoutOption}
)

func adminCmd(name string, kind lock.Kind, options []config.Option, do func(context.Context, *administration) error) *cli.Command {
	return &cli.Command{
		Name:         name,
		HideHelp:     true,
		Flags:        append(flagsFor(options), flagsFor(config.ConnectionOptions())...),
		OnUsageError: usageError,
		Action:       administer(kind, options, do),
	}
}

// noSubcommand is a group of commands without one, or with one that does not
// exist.
func noSubcommand(c *cli.Context) error {
	if c.Args().Present() {
		return unknownCommand(c.Command.HelpName, c.Args().First(), c.Command.Subcommands)
	}
	var names []string
	for _, command := range c.Command.Subcommands {
		names = append(names, command.Name)
	}
	return usagef("say what to do: %s; see '%s --help'", strings.Join(names, ", "), c.Command.HelpName)
}

func createSemaphore(ctx context.Context, a *administration) error {
	want := a.flags.slots
	if want == 0 {
		return usagef("give --slots N, the number of slots")
	}
	before, after, err := a.change(ctx, defaultOvershoot, func(present int) (int, error) {
		if present != 0 && present != want {
			return 0, fmt.Errorf("%w: %s exists with %s; to change that use: %s",
				errConflict, a.id, slots(present), a.commandLine("berth semaphore resize", fmt.Sprintf("--slots %d", want)))
		}
		return want, nil
	})
	return a.sized(before, after, err)
}

func resizeSemaphore(ctx context.Context, a *administration) error {
	if err := a.flags.oneSize(); err != nil {
		return err
	}
	before, after, err := a.change(ctx, a.flags.overshoot, func(present int) (int, error) {
		if present == 0 {
			return 0, fmt.Errorf("%s: %w; make it with: %s", a.id, lock.ErrAbsent, a.id.CreateCommand(a.naming...))
		}
		return a.flags.target(present)
	})
	if err := a.sized(before, after, err); err != nil {
		return err
	}
	return a.awaitVacant(ctx, after, max(before, after))
}

func destroySemaphore(ctx context.Context, a *administration) error {
	before, _, err := a.change(ctx, a.flags.overshoot, func(int) (int, error) { return 0, nil })
	switch {
	case err != nil:
	case before == 0:
		err = a.say("was not there")
	default:
		err = a.say("destroyed (had %s)", slots(before))
	}
	if err != nil {
		return err
	}
	return a.awaitVacant(ctx, 0, before)
}

// oneSize checks that exactly one flag says how many slots there shall be.
func (f actionFlags) oneSize() error {
	given := 0
	for _, number := range []int{f.slots, f.add, f.remove} {
		if number != 0 {
			given++
		}
	}
	if given != 1 {
		return usagef("give exactly one of --slots N, --add X and --remove X, not %d of them", given)
	}
	return nil
}

// target returns the number of slots wanted, given the present one.
func (f actionFlags) target(present int) (int, error) {
	switch {
	case f.slots > 0:
		return f.slots, nil
	case present+f.add > lock.MaxSlots:
		return 0, usagef("--add %d: there are %s already and at most %d are possible; add at most %d", f.add, slots(present), lock.MaxSlots, lock.MaxSlots-present)
	case f.remove >= present:
		return 0, usagef("--remove %d: there are %s and one has to stay; remove fewer, or all with 'berth semaphore destroy'", f.remove, slots(present))
	}
	return present + f.add - f.remove, nil
}

// sized reports the end of a change of size.
func (a *administration) sized(before, after int, err error) error {
	switch {
	case err != nil:
		return err
	case before == after:
		return a.say("%s already", slots(after))
	}
	return a.say("%s (was %d)", slots(after), before)
}

// slots returns "1 slot" or "3 slots".
func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}
