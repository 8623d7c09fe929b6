package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"berth/prover/campaign"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/report"
)

var replayFlags = []cli.Flag{
	&cli.DurationFlag{Name: "from", Usage: "begin at this `TIME` of the report, with the client that had the lock"},
	&cli.DurationFlag{Name: "until", Usage: "end at this `TIME` of the report"},
	&cli.StringFlag{Name: "only", Usage: "leave out faults of other `CLIENTS` and nodes than these, such as c3,n1"},
}

// part is what comes again of a run.
type part struct {
	report.Report
	faults      []history.Event
	from, until int64 // as in the history
}

func replayAction(c *cli.Context) (judge.Outcome, error) {
	p, err := recorded(c)
	if err != nil {
		return "", err
	}
	r, err := p.contend(c)
	return finish(c, r, err)
}

// recorded reads the report of a run, sets those flags that are not given again, and selects what they leave of it.
func recorded(c *cli.Context) (p part, err error) {
	path := c.Args().First()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &p.Report)
	}
	runs, all := judge.Runs(p.History), p.History.Faults()
	switch {
	case c.NArg() == 1 && err != nil:
		return p, fmt.Errorf("cannot read %s as a report in JSON: %w", path, err)
	case c.NArg() != 1 || len(p.Flags) == 0 || len(runs) == 0:
		return p, fmt.Errorf("name one report of a run, not %q: run --report FILE.json writes it", path)
	}
	without := func(flag, name string) bool {
		list := strings.Split(c.String(flag), ",")
		return c.IsSet(flag) && !slices.Contains(list, name) && !slices.Contains(list, "all")
	}
	p.faults = slices.DeleteFunc(slices.Clone(all), func(e history.Event) bool {
		return without("faults", e.Fault) || e.Target != "" && without("only", e.Target)
	})
	for name, values := range p.Flags {
		if c.IsSet(name) {
			continue
		}
		for _, value := range values {
			if err = c.Set(name, value); err != nil || strings.Contains(value, report.Hidden) {
				return p, fmt.Errorf("give --%s again: the report has it as %q", name, value)
			}
		}
	}
	p.from, p.until = max(runs[0].At, int64(c.Duration("from"))), runs[0].At+int64(c.Duration("time"))
	if c.IsSet("until") {
		p.until = int64(c.Duration("until"))
	}
	p.faults = slices.DeleteFunc(p.faults, func(e history.Event) bool { return e.At < p.from || e.At > p.until })
	if p.until <= p.from || len(p.faults) == 0 && len(all) > 0 {
		return p, fmt.Errorf("no fault of the report is left from %s until %s, of %d: widen --from, --until, --only or --faults",
			time.Duration(p.from), time.Duration(p.until), len(all))
	}
	return p, nil
}

// contend has the faults strike again, each as long after the first command, or after from, as it did, and on a client that
// does what the one did that it struck. The first client to start is the one that had the lock.
func (p part) contend(c *cli.Context) (r report.Report, err error) {
	runs, script, names, first := judge.Runs(p.History), []campaign.Plan{}, []string{}, 1
	for _, e := range p.faults {
		phase := judge.PhaseOf(p.History, runs, e)
		script = append(script, campaign.Plan{Fault: fault.Fault{Name: e.Fault}, At: time.Duration(e.At - p.from), Prefers: e.Target,
			Running: phase == judge.Young || phase == judge.Running, Waiting: phase == judge.Waiting,
			Lasts: time.Duration(cmp.Or(e.Lasts, e.Until-e.At))})
		names = append(names, e.Fault)
	}
	for _, run := range runs {
		if run.At <= p.from {
			_, _ = fmt.Sscanf(run.Client, "c%d", &first)
		}
	}
	slices.Sort(names)
	length := time.Duration(p.until - p.from + runs[0].At) // the first command takes a moment to begin
	if len(script) > 0 {
		later := max(0, c.Duration("calm")-script[0].At)
		for i := range script {
			script[i].At += later
		}
		length += later
	}
	length = max(length, c.Duration("calm")+time.Second)
	err = errors.Join(c.Set("faults", strings.Join(slices.Compact(names), ",")), c.Set("time", length.String()))
	if err != nil {
		return r, err
	}
	return contend(c, script, max(0, first-1))
}
