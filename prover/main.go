// Command berth-prove runs commands under a lock, breaks things meanwhile, and judges from what lived when whether the lock
// has kept its promises. The lock may be any:
//
//	berth-prove run --adapter "flock {lock} {witness}" --faults kill,stop --time 30s
//	berth-prove replay out.json
//	berth-prove shrink out.json
//	berth-prove judge history.jsonl
//	berth-prove hold python3 lock.py -- command
//	berth-prove list
//
// It shares no code with what berth's lock and supervisor are made of, so that it shares none of their bugs. The same
// program is the command that it has run under the lock: package witness.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"berth/prover/fault"
	"berth/prover/hold"
	"berth/prover/judge"
	"berth/prover/witness"
)

// The exit statuses.
const (
	statusKept     = 0
	statusViolated = 1
	statusUnknown  = 2 // also: wrong usage, a run that failed, or fewer than two commands in all
)

var release = "of no release" // set by the linker: see the Makefile

func init() {
	if len(os.Args) > 1 && os.Args[1] == "hold" {
		runtime.LockOSThread() // main stays on the first thread: see hold.Become
	}
}

func main() {
	if witness.Called() {
		os.Exit(witness.Main())
	}
	os.Exit(run(os.Args))
}

// run returns the exit status. What is violated stays so, whatever fails beside it.
func run(args []string) int {
	var found judge.Outcome
	// The parser wants flags before a file.
	takesFile := len(args) > 3 && slices.Contains([]string{"replay", "shrink", "judge"}, args[1])
	if takesFile && (args[2] == "-" || !strings.HasPrefix(args[2], "-")) {
		args = slices.Concat(args[:2], args[3:], args[2:3])
	}
	err := app(&found).Run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth-prove:", err)
	}
	switch {
	case found == judge.Violated:
		return statusViolated
	case err != nil || found == judge.Unknown:
		return statusUnknown
	}
	return statusKept
}

// app is the command line. What is judged puts into found what was found.
func app(found *judge.Outcome) *cli.App {
	judging := func(do func(*cli.Context) (judge.Outcome, error)) cli.ActionFunc {
		return func(c *cli.Context) (err error) {
			*found, err = do(c)
			return err
		}
	}
	return &cli.App{
		Name:  "berth-prove",
		Usage: "judge whether a lock keeps its promises",
		Description: "Exit status: 0 if nothing was violated, 1 if something was, 2 if that cannot be judged.\n\n" +
			"docs/prover.md, or /usr/share/doc/berth-prover, has more.",
		Version:         release,
		HideHelpCommand: true,

		DisableSliceFlagSeparator: true, // a file's name may have a comma
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return err },
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("there is no command %q; see berth-prove --help", c.Args().First())
			}
			return errors.New("name what to do: run, replay, shrink, judge, hold or list; see berth-prove --help")
		},
		Commands: []*cli.Command{
			{Name: "run", Usage: "have clients contend for a lock, break things, and judge", Flags: append(runFlags, boundFlags...),
				Action: judging(interruptible(runAction))},
			{Name: "replay", Usage: "have the faults of a run strike again, with its other flags, too", ArgsUsage: "REPORT.json",
				Flags: slices.Concat(replayFlags, runFlags, boundFlags), Action: judging(interruptible(replayAction))},
			{Name: "shrink", Usage: "find fewer faults and clients with which a promise is still violated", ArgsUsage: "REPORT.json",
				Flags: slices.Concat(shrinkFlags, replayFlags, runFlags, boundFlags), Action: judging(interruptible(shrinkAction))},
			{Name: "judge", Usage: "judge a history", ArgsUsage: "FILE, or - for standard input",
				Flags:  append([]cli.Flag{&cli.IntFlag{Name: "slots", Usage: "how many may hold at once, whatever the history has"}}, boundFlags...),
				Action: judging(judgeAction)},
			{Name: "hold", Usage: "make a lock that runs a command of a program that speaks JSON: docs/hold.md",
				ArgsUsage: "PROGRAM [ARGUMENT...] -- COMMAND [ARGUMENT...]", Action: holdAction, Flags: []cli.Flag{
					&cli.DurationFlag{Name: "verify", Value: time.Second, Usage: "how often the program is asked whether it still holds the lock"},
					&cli.IntFlag{Name: "program", Hidden: true, Usage: "the process of the program: this one speaks with it"}}},
			{Name: "list", Usage: "print faults and checkers", Action: listAction},
		},
	}
}

func holdAction(c *cli.Context) error {
	words, every := c.Args().Slice(), c.Duration("verify")
	if program := c.Int("program"); program != 0 {
		ctx, _ := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		return (&hold.Speaker{Program: program, Verify: every, Command: words}).Speak(ctx)
	}
	at := len(words) - 1
	for at >= 0 && words[at] != "--" {
		at--
	}
	switch {
	case at < 1 || at == len(words)-1:
		return errors.New("hold takes a program and a command with -- between them; see berth-prove hold --help")
	case every <= 0:
		return errors.New("--verify must be above 0")
	}
	return hold.Become(words[:at], slices.Concat([]string{"hold", "--verify", every.String(), "--program",
		fmt.Sprint(os.Getpid()), "--"}, words[at+1:]))
}

// needs tells what flags a fault needs.
var needs = map[fault.Needs]string{
	fault.Link:   "; needs --broker, a URL with a port",
	fault.Broker: "; needs --broker start",
	fault.Nodes:  "; needs --broker start --nodes 3",
}

func listAction(c *cli.Context) error {
	for _, f := range fault.All {
		fmt.Fprintf(c.App.Writer, "fault    %-15s %s%s\n", f.Name, f.About, needs[f.Needs])
	}
	for _, one := range judge.Checkers {
		fmt.Fprintf(c.App.Writer, "checker  %-15s %s\n", one.Name, one.About)
	}
	return nil
}
