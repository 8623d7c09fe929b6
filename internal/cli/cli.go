// Package cli is berth's command line: one file per command, and the only place that
// puts everything together. Main runs it:
//
//	os.Exit(cli.Main(os.Args))
//
// Whatever goes wrong is said in one line on stderr and by the exit status (exit.go);
// stdout has results only. What a command does is in the package that it calls; what
// is read about it, package pages makes from what stands here.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/cli/pages"
	"berth/internal/config"
	"berth/internal/guard/launch"
	"berth/internal/logging"
	"berth/internal/tty"
	"berth/supervisor"
)

// Main runs the command line and returns the exit status. args[0] is the
// program's name.
func Main(args []string) int {
	defer launch.Drop()
	return orFault(func() int { return run(args) })
}

// orFault makes a panic an exit status: its own would be 2, as many a command's
// is. Nothing was given back; the guard kills the command when this process ends.
// A panic in another goroutine, and what Go's runtime ends a process for without
// one, cannot be caught.
func orFault(run func() int) (status int) {
	defer func() {
		if fault := recover(); fault != nil {
			logging.Last(os.Stderr, fmt.Sprintf("%s\nberth: a fault of berth's own, its guard kills the command: %v",
				debug.Stack(), fault))
			status = supervisor.ExitInternal
		}
	}()
	return run()
}

func run(args []string) int {
	app := NewApp()
	args = flags.Arrange(app, args)
	command, err := flags.Check(app, args)
	if err = failed(command, err); err == nil {
		err = app.Run(args)
	}
	if !said(err) {
		logging.Last(app.ErrWriter, logging.OneLine(err))
	}
	return Status(err)
}

const shortHelp = `berth runs a command only while it holds a lock in RabbitMQ, and has the
command's whole process tree dead before another holder may start its own.

  export BERTH_BROKER=amqp://user:password@rabbit.example.com/locks
  berth run --mutex nightly-report -- /usr/bin/report --all

  berth semaphore create workers --slots 3
  berth run --semaphore workers -- /usr/bin/worker

  berth run --broker local --mutex backup --try -- /usr/bin/backup

See 'berth --help' for all commands and 'berth run --help' for all flags.
`

// NewApp describes the command line.
//
// Of urfave/cli's own pages only the machinery is used. Its help flag fails where a
// command of the user's follows (berth run --help sleep), its help command would
// catch one that is called "help" and knows no "help semaphore create", and its
// suggestions propose the nearest name however far it is: another kind of lock.
func NewApp() *cli.App {
	return &cli.App{
		Name:                      "berth",
		HelpName:                  "berth",
		Usage:                     "run a command only while holding a lock",
		Description:               shortHelp,
		CustomAppHelpTemplate:     pages.Root,
		Writer:                    os.Stdout,
		ErrWriter:                 tty.Writer{W: os.Stderr},
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              usageError,
		Flags:                     []cli.Flag{&cli.BoolFlag{Name: "version"}},
		Action:                    bare,
		Commands: []*cli.Command{
			runCommand(), semaphoreCommand(), persistentMutexCommand(), tokenSemaphoreCommand(),
			statusCommand(), stepDownCommand(), reloadCommand(), checkCommand(),
			completionCommand(), versionCommand(), helpCommand(),
		},
	}
}

// bare is `berth` without a command, or with one that does not exist.
func bare(c *cli.Context) error {
	switch {
	case c.Bool("version"):
		return printVersion(c)
	case !c.Args().Present():
		fmt.Fprint(c.App.ErrWriter, shortHelp)
		return supervisor.Exit{Status: supervisor.ExitUsage}
	}
	return failed(c.Command.HelpName, flags.UnknownCommand(c.Command, c.Args().First()))
}

// command completes the description of a command.
func command(c cli.Command, end string) *cli.Command {
	run := c.Action
	c.Action = func(c *cli.Context) error { return failed(c.Command.HelpName, run(c)) }
	c.HideHelp = true
	c.OnUsageError = usageError
	c.CustomHelpTemplate = pages.Page(end)
	return &c
}

// usageError is what urfave/cli calls when flags cannot be parsed, which
// includes -h and --help, because berth does not define them as flags.
func usageError(c *cli.Context, err error, _ bool) error {
	if errors.Is(err, flag.ErrHelp) {
		return pages.Help(c.App.Writer, c.Command)
	}
	return failed(c.Command.HelpName, flags.Mistake(c.Command, err))
}

// noSubcommand is a group of commands without one, or with one that does not
// exist.
func noSubcommand(c *cli.Context) error {
	if c.Args().Present() {
		return flags.UnknownCommand(c.Command, c.Args().First())
	}
	var names []string
	for _, command := range c.Command.Subcommands {
		names = append(names, command.Name)
	}
	return config.Usagef("say what to do: %s; see '%s --help'", strings.Join(names, ", "), c.Command.HelpName)
}

// failed makes an error begin with the command that it ended, such as "berth run".
func failed(command string, err error) error {
	if said(err) {
		return err
	}
	return fmt.Errorf("%s: %w", command, err)
}
