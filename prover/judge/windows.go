package judge

import (
	"time"

	"berth/prover/history"
)

// young is for how long a command counts as young.
const young = time.Second

// Hits returns how often each fault fell into each phase of its target, but for those that failed. See
// [history.History.Faults].
func Hits(h history.History) Windows {
	w, runs := Windows{}, Runs(h)
	add := func(fault string, phase Phase, n int) {
		if w[fault] == nil {
			w[fault] = map[Phase]int{Waiting: 0, Young: 0, Running: 0, Other: 0}
		}
		w[fault][phase] += n
	}
	for _, e := range h {
		for _, name := range e.Faults {
			add(name, Other, 0)
		}
	}
	for _, e := range h.Faults() {
		if e.Failed == "" {
			add(e.Fault, PhaseOf(h, runs, e), 1)
		}
	}
	return w
}

// PhaseOf returns what the target of a fault was doing, whose runs these are.
func PhaseOf(h history.History, runs []Run, f history.Event) Phase {
	for _, r := range runs {
		if r.Client == f.Target && r.At <= f.At && f.At <= r.Until {
			if f.At-r.At < int64(young) {
				return Young
			}
			return Running
		}
	}
	for _, c := range h {
		if c.Kind == history.Client && c.Client == f.Target && c.At <= f.At && (f.At <= c.Until || c.Until == 0) {
			return Waiting
		}
	}
	return Other
}
