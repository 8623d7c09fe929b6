package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"berth/prover/history"
	"berth/prover/judge"
)

// facts returns in one line what the history is about.
func (r Report) facts() string {
	var parts []string
	if r.Seed != 0 || !r.Began.IsZero() {
		parts = append(parts, fmt.Sprintf("seed %d", r.Seed))
	}
	if !r.Began.IsZero() {
		parts = append(parts, "began "+r.Began.UTC().Format(time.RFC3339))
	}
	for _, event := range r.History {
		if event.Kind == history.Lock {
			parts = append(parts, fmt.Sprintf("lock %s with %s", clean(event.Lock), count(event.Slots, "slot")))
		}
	}
	from, to := r.bounds()
	return strings.Join(append(parts, time.Duration(to-from).Round(time.Millisecond).String(),
		count(len(r.clients()), "client"), count(len(judge.Runs(r.History)), "command"), count(len(r.History.Faults()), "fault")), ", ")
}

// bounds returns the first and the last moment of the history. A lock has no time.
func (r Report) bounds() (from, to int64) {
	var times []int64
	for _, event := range r.History {
		if event.Kind != history.Lock {
			times = append(times, event.At, max(event.At, event.Until))
		}
	}
	for _, verdict := range r.Verdicts {
		for _, v := range verdict.Violations {
			times = append(times, v.At, max(v.At, v.Until))
		}
	}
	if len(times) == 0 {
		return 0, 0
	}
	return slices.Min(times), slices.Max(times)
}

// clients returns the names of all clients, c2 before c10.
func (r Report) clients() []string {
	var names []string
	for _, event := range r.History {
		if event.Client != "" {
			names = append(names, event.Client)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return slices.Compact(names)
}

// phases are the columns of the table of windows.
var phases = []judge.Phase{judge.Waiting, judge.Young, judge.Running, judge.Other}

// window is a row of the table of windows.
type window struct {
	Fault  string
	Counts []string // by phase; "-": it cannot strike there, because it strikes no client
	Idle   bool     // it has struck nothing
}

// windows returns the rows of the table, by name.
func (r Report) windows() []window {
	var rows []window
	for _, fault := range slices.Sorted(maps.Keys(r.Windows)) {
		row, hits, targeted := window{Fault: clean(fault)}, 0, r.Targeted(fault)
		for _, phase := range phases {
			n := r.Windows[fault][phase]
			switch {
			case targeted && phase != judge.Other, !targeted && phase == judge.Other:
				hits += n
			case n == 0 && !targeted:
				row.Counts = append(row.Counts, "-")
				continue
			}
			row.Counts = append(row.Counts, fmt.Sprint(n))
		}
		row.Idle = hits == 0
		rows = append(rows, row)
	}
	return rows
}

// Targeted reports whether a fault strikes clients, and not the broker or all. One that has struck nothing may.
func (r Report) Targeted(fault string) bool {
	counts := r.Windows[fault]
	if counts[judge.Waiting]+counts[judge.Young]+counts[judge.Running] > 0 || counts[judge.Other] == 0 {
		return true
	}
	clients := r.clients()
	return slices.ContainsFunc(r.History, func(event history.Event) bool {
		return event.Kind == history.Fault && event.Fault == fault && slices.Contains(clients, event.Target)
	})
}

// failed tells of the faults whose command has failed, for people.
func (r Report) failed() (all []string) {
	for _, e := range r.History.Faults() {
		if e.Failed != "" {
			all = append(all, clean(fmt.Sprintf("%s at %s: %s", e.Fault, seconds(e.At), e.Failed)))
		}
	}
	return all
}

// caveat is what the windows leave open; "": nothing.
func (r Report) caveat() string {
	rows := r.windows()
	switch {
	case len(rows) == 0:
		return "No fault has struck (see --faults). Zero hits is no verdict: what is kept is kept without faults."
	case slices.ContainsFunc(rows, func(row window) bool { return row.Idle || slices.Contains(row.Counts[:3], "0") }):
		return "Zero hits is no verdict: a fault proves nothing of a phase in which it has not struck."
	}
	return ""
}

// clean makes text harmless for a terminal: names come from outside.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// seconds is a moment or a span of the history for people.
func seconds(ns int64) string { return fmt.Sprintf("%.6f s", float64(ns)/1e9) }
