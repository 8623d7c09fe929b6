package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/report"
)

// boundFlags are those of all that judges.
var boundFlags = []cli.Flag{
	&cli.DurationFlag{Name: "progress", Usage: "how long a slot may stay free while clients wait", Value: 30 * time.Second},
	&cli.IntFlag{Name: "bypass", Usage: "how many clients that come later may get a slot before one that waits", DefaultText: "any"},
	&cli.StringFlag{Name: "checkers", Usage: "look for these violations alone, such as overlap,permits", DefaultText: "all"},
	&cli.StringSliceFlag{Name: "report", Usage: "write the report to a `FILE`, by its name as JSON or HTML; repeatable"},
}

func judgeAction(c *cli.Context) (judge.Outcome, error) {
	if c.NArg() != 1 {
		return "", errors.New("judge takes one history: a FILE, or - for standard input")
	}
	if _, err := checkers(c); err != nil {
		return "", err
	}
	if c.Int("slots") < 0 || c.Duration("progress") <= 0 || c.Int("bypass") < 0 {
		return "", errors.New("--slots, --progress and --bypass must be above 0")
	}
	if err := writable(c); err != nil {
		return "", err
	}
	var from io.Reader = os.Stdin
	if path := c.Args().First(); path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("cannot read the history: %w", err)
		}
		defer file.Close()
		from = file
	}
	h, err := history.Read(from)
	if err != nil {
		return "", err
	}
	lock := func(e history.Event) bool { return e.Kind == history.Lock }
	if c.Int("slots") < 1 && !slices.ContainsFunc(h, lock) {
		return "", errors.New("the history does not have how many may hold at once: add a line of kind lock, or give --slots")
	}
	return conclude(c, report.Report{Command: commandLine(), History: h})
}

func bounds(c *cli.Context) judge.Bounds {
	return judge.Bounds{Slots: c.Int("slots"), Progress: c.Duration("progress"), Bypass: c.Int("bypass")}
}

// writable makes the files that will be written, so that what cannot be written fails before a long run, and not after it.
func writable(c *cli.Context) error {
	reports := c.StringSlice("report")
	for _, path := range reports {
		if err := report.Writable(path); err != nil {
			return err
		}
	}
	for _, path := range append(reports, c.String("history")) {
		if path == "" {
			continue
		}
		file, err := os.Create(path) // and no verdict of another run stays there
		if err != nil {
			return fmt.Errorf("cannot write a report or a history: %w", err)
		}
		file.Close()
	}
	return nil
}

// conclude judges a history, and prints and writes what it finds.
func conclude(c *cli.Context, r report.Report) (judge.Outcome, error) {
	names, err := checkers(c)
	r.Verdicts = judge.Judge(r.History, bounds(c), names...)
	r.Windows = judge.Hits(r.History)
	err = errors.Join(err, report.Text(c.App.Writer, r))
	for _, path := range c.StringSlice("report") {
		err = errors.Join(err, report.Write(path, r))
	}
	return outcome(r.Verdicts, names...), err
}

// outcome is violated if anything is. Of checkers that were asked for none may be unknown, else permits alone, which it is when
// fewer than two commands ran: terms are where the lock has none, and overlap where commands were not told which of several slots they are on.
func outcome(verdicts []judge.Verdict, asked ...string) judge.Outcome {
	found := judge.Kept
	for _, v := range verdicts {
		switch {
		case v.Outcome == judge.Violated:
			return judge.Violated
		case v.Outcome == judge.Unknown && (v.Checker == "permits" || len(asked) > 0):
			found = judge.Unknown
		}
	}
	return found
}

// checkers returns the names of those that are asked for; nil: all.
func checkers(c *cli.Context) (names []string, err error) {
	for _, name := range strings.FieldsFunc(c.String("checkers"), func(r rune) bool { return r == ',' }) {
		if !slices.ContainsFunc(judge.Checkers, func(one judge.Checker) bool { return one.Name == name }) {
			return nil, fmt.Errorf("there is no checker %q; berth-prove list prints all", name)
		}
		names = append(names, name)
	}
	return names, nil
}
