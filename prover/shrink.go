package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/urfave/cli/v2"

	"berth/prover/history"
	"berth/prover/judge"
)

var shrinkFlags = []cli.Flag{
	&cli.IntFlag{Name: "tries", Value: 3, Usage: "how often each step is tried: a violation may need luck"},
	&cli.DurationFlag{Name: "limit", Value: 10 * time.Minute, Usage: "end after this time, with the smallest so far"},
}

const (
	lead = 2 * time.Second // before the first fault at most: clients get ready
	tail = 2 * time.Second // after the violation at least
)

// shrinking is a search for less with which a promise is still violated.
type shrinking struct {
	c       *cli.Context
	checker string // the first that has found anything
	bounds  judge.Bounds
	least   part  // with which it does, faults until then
	broken  int64 // when it does first
	again   bool  // least is not what was given
}

func shrinkAction(c *cli.Context) (judge.Outcome, error) {
	p, err := recorded(c)
	if err != nil {
		return "", err
	}
	names, err := checkers(c)
	if err != nil {
		return "", err
	}
	verdicts := judge.Judge(p.History, bounds(c), names...)
	i := slices.IndexFunc(verdicts, func(v judge.Verdict) bool { return v.Outcome == judge.Violated })
	switch {
	case c.Int("tries") < 1 || c.Duration("limit") <= 0:
		return "", errors.New("--tries and --limit must be above 0")
	case i < 0:
		return "", errors.New("the report has no violation that could come again")
	}
	small := strings.TrimSuffix(c.Args().First(), ".json") + "-small.json"
	_, err = configure(c)
	if err = errors.Join(err, c.Set("report", small), writable(c)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(c.Context, c.Duration("limit"), errors.New("--limit is over; give more, or more --tries"))
	defer cancel()
	c.Context = ctx
	s := &shrinking{c: c, checker: verdicts[i].Checker, bounds: bounds(c)}
	if err := c.Set("checkers", s.checker); err != nil {
		return "", err
	}
	s.is(p, verdicts[i].Violations[0].At)
	s.again = false
	s.search()
	cause := context.Cause(ctx)
	if !s.again {
		_ = os.Remove(small)
		return "", cmp.Or(cause, fmt.Errorf("%s is not violated again; more --tries may help", s.checker))
	}
	if cause != nil {
		fmt.Fprintln(c.App.Writer, cause)
	}
	s.least.Command = "berth-prove replay " + shellescape.Quote(small)
	fmt.Fprintln(c.App.Writer)
	return finish(c, s.least.Report, nil)
}

// search looks for the last faults before the violation with which it comes again, and leaves out parts of these, and then
// clients, while it does.
func (s *shrinking) search() {
	clients, all := s.c.Int("clients"), s.least.faults
	for n := min(1, len(all)); !s.comes(all[len(all)-n:], clients) && n < len(all); {
		n = min(2*n, len(all))
	}
	for size := (len(s.least.faults) + 1) / 2; s.again && size > 0; size /= 2 {
		for i := 0; i < len(s.least.faults); {
			kept := slices.Clone(s.least.faults)
			if !s.comes(slices.Delete(kept, i, min(i+size, len(kept))), clients) {
				i += size
			}
		}
	}
	for s.again && clients > s.c.Int("slots")+1 && s.comes(s.least.faults, clients-1) {
		clients--
	}
}

// is has this be the smallest, with a violation at that time: what strikes later has no part in it.
func (s *shrinking) is(p part, broken int64) {
	s.least, s.broken, s.again = p, broken, true
	s.least.faults = slices.DeleteFunc(s.least.faults, func(e history.Event) bool { return e.At > broken })
}

// comes reports whether the promise is violated with these faults of the smallest, and so many clients. If so, that is the
// smallest.
func (s *shrinking) comes(faults []history.Event, clients int) bool {
	p, begins := part{Report: s.least.Report, faults: faults}, s.broken
	if len(faults) > 0 {
		begins = faults[0].At
	}
	for i, run := range judge.Runs(p.History) { // so that the first fault strikes a command as young as it did
		if i == 0 || run.At <= begins {
			p.from = max(run.At, begins-int64(lead))
		}
	}
	p.until = max(p.from, s.broken) + max(int64(tail), (s.broken-p.from)/2)
	for try := 1; try <= s.c.Int("tries") && s.c.Context.Err() == nil; try++ {
		err := s.c.Set("clients", fmt.Sprint(clients))
		r, failed := p.contend(s.c)
		v := judge.Judge(r.History, s.bounds, s.checker)[0]
		line := fmt.Sprintf("faults %d, clients %d, try %d: %s %s", len(faults), clients, try, s.checker, v.Outcome)
		if err = errors.Join(err, failed); err != nil {
			line += fmt.Sprint(", ", err)
		}
		fmt.Fprintln(s.c.App.Writer, line)
		if v.Outcome == judge.Violated {
			s.is(part{Report: r, faults: r.History.Faults()}, v.Violations[0].At)
			return true
		}
	}
	return false
}
