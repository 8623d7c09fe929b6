// Package cli is berth's command line: one file per command, and the only place
// that puts configuration, backends and supervisor together. Main runs it:
//
//	os.Exit(cli.Main(os.Args))
//
// Whatever goes wrong is said in one line on stderr and by the exit status (see
// the Exit constants); stdout has results only.
package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"berth/internal/tty"
	"berth/signals"

	"github.com/urfave/cli/v2"
)

// Main runs the command line and returns the exit status. args[0] is the
// program's name.
func Main(args []string) int {
	return orFault(func() int { return run(args) })
}

// orFault makes a panic an exit status: its own would be 2, as many a command's
// is. Nothing was given back; the guard kills the command when this process ends.
// A panic in another goroutine, and what Go's runtime ends a process for without
// one, cannot be caught.
func orFault(run func() int) (status int) {
	defer func() {
		if fault := recover(); fault != nil {
			sayLast(os.Stderr, fmt.Sprintf("%s\nberth: a fault of berth's own, its guard kills the command: %v", debug.Stack(), fault))
			status = ExitInternal
		}
	}()
	return run()
}

func run(args []string) int {
	app := newApp()
	args = nameLast(app, args)
	err := checkValues(app, args)
	if err == nil {
		err = app.Run(args)
	}
	var over exited
	if err != nil && !errors.As(err, &over) {
		sayLast(app.ErrWriter, oneLine(err))
	}
	return Status(err)
}

// newApp describes the command line. urfave/cli's own help is off: its pages
// cannot say where else a flag can be set, and its help command would catch a
// user's command called "help".
func newApp() *cli.App {
	return &cli.App{
		Name:                      "berth",
		HelpName:                  "berth",
		Usage:                     "run a command only while holding a lock",
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
			runCmd(), semaphoreCmd(), persistentMutexCmd(), checkCmd(), completionCmd(), versionCmd(), helpCmd(),
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
		return exited(ExitUsage)
	}
	return failed("berth", unknownCommand("berth", c.Args().First(), c.App.Commands))
}

// failure is an error with the command that it ended.
type failure struct {
	command string // such as "berth semaphore create"
	err     error
}

func (f *failure) Error() string { return f.command + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(command string, err error) error {
	var over exited
	if err == nil || errors.As(err, &over) {
		return err
	}
	return &failure{command, err}
}

// action makes the errors of a command begin with its name.
func action(run cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error { return failed(c.Command.HelpName, run(c)) }
}

// oneLine keeps a message to one line, whatever it quotes. Spaces stay: they may
// belong to a name in a command line that is to be pasted.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

func signalName(sig syscall.Signal) string { return signals.Name(sig) }
