package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/report"
)

// boundFlags are those of all that judges.
var boundFlags = []cli.Flag{
	&cli.DurationFlag{Name: "progress", Usage: "how long a free slot may be left alone while clients wait", Value: 30 * time.Second},
	&cli.StringFlag{Name: "report", Usage: "write the report to a `FILE`, by its name as JSON or HTML"},
}

func judgeAction(c *cli.Context) error {
	if c.NArg() != 1 {
		return errors.New("judge takes one history: a FILE, or - for standard input")
	}
	if err := writable(c); err != nil {
		return err
	}
	var from io.Reader = os.Stdin
	if path := c.Args().First(); path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("cannot read the history: %w", err)
		}
		defer file.Close()
		from = file
	}
	h, err := history.Read(from)
	if err != nil {
		return err
	}
	return conclude(c, report.Report{History: h}, c.Int("slots"))
}

// writable fails before a long run, and not after it.
func writable(c *cli.Context) error {
	if path := c.String("report"); path != "" {
		return report.Writable(path)
	}
	return nil
}

// conclude judges a history, and prints and writes what it finds.
func conclude(c *cli.Context, r report.Report, slots int) error {
	r.Command = commandLine()
	r.Verdicts = judge.Judge(r.History, judge.Bounds{Slots: slots, Progress: c.Duration("progress")})
	r.Windows = judge.Hits(r.History)
	if err := report.Text(c.App.Writer, r); err != nil {
		return err
	}
	if path := c.String("report"); path != "" {
		if err := report.Write(path, r); err != nil {
			return err
		}
	}
	return outcome(r.Verdicts)
}

// outcome is violated if anything is. It is unknown if overlap is, or permits; where commands were not told which of
// several slots they are on, permits has all that can be judged.
func outcome(verdicts []judge.Verdict) error {
	of := map[string]judge.Outcome{}
	for _, v := range verdicts {
		if v.Outcome == judge.Violated {
			return errViolated
		}
		of[v.Checker] = v.Outcome
	}
	if of["permits"] == judge.Unknown {
		return errUnknown
	}
	return nil
}
