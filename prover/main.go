// Command berth-prove runs commands under a lock, breaks things meanwhile, and judges from what lived when whether the lock
// has kept its promises. The lock may be any:
//
//	berth-prove run --adapter "flock {lock} {witness}" --faults kill,stop --time 30s
//	berth-prove judge history.jsonl
//	berth-prove list
//
// It shares no code with what berth's lock and supervisor are made of, so that it shares none of their bugs. The same
// program is the command that it has run under the lock: package witness.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"berth/prover/fault"
	"berth/prover/judge"
	"berth/prover/witness"
)

// The exit statuses.
const (
	statusKept     = 0
	statusViolated = 1
	statusUnknown  = 2 // also: wrong usage, or a lock that runs nothing
	statusStatuses = 3 // violated by the checker statuses alone
)

func main() {
	if witness.Called() {
		os.Exit(witness.Main())
	}
	os.Exit(run(os.Args))
}

// run returns the exit status. What is violated stays so, whatever fails beside it.
func run(args []string) int {
	var found judge.Outcome
	err := app(&found).Run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth-prove:", err)
	}
	switch {
	case found == judge.Violated:
		return statusViolated
	case found == statusesViolated:
		return statusStatuses
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
		Description: "Exit status: 0 if nothing was violated, 1 if something was, 2 if that cannot be judged, 3 if statuses " +
			"alone was violated.\n\ndocs/prover.md has more.",
		HideHelpCommand: true,

		DisableSliceFlagSeparator: true, // a file's name may have a comma
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return err },
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("there is no command %q; see berth-prove --help", c.Args().First())
			}
			return errors.New("name what to do: run, judge or list; see berth-prove --help")
		},
		Commands: []*cli.Command{
			{Name: "run", Usage: "have clients contend for a lock, break things, and judge", Flags: append(runFlags, boundFlags...),
				Action: judging(runAction)},
			{Name: "judge", Usage: "judge a history", ArgsUsage: "FILE, or - for standard input",
				Flags:  append([]cli.Flag{&cli.IntFlag{Name: "slots", Usage: "how many may hold at once, whatever the history has"}}, boundFlags...),
				Action: judging(judgeAction)},
			{Name: "list", Usage: "print faults and checkers", Action: listAction},
		},
	}
}

func listAction(c *cli.Context) error {
	for _, f := range fault.All {
		fmt.Fprintf(c.App.Writer, "fault    %-12s %s\n", f.Name, f.About)
	}
	for _, one := range judge.Checkers {
		fmt.Fprintf(c.App.Writer, "checker  %-12s %s\n", one.Name, one.About)
	}
	return nil
}
