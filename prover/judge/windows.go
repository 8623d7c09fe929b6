package judge

import (
	"time"

	"berth/prover/history"
)

// young is for how long a command counts as young.
const young = time.Second

// Hits returns how often each fault fell into each phase of its target.
func Hits(h history.History) Windows {
	w, runs := Windows{}, Runs(h)
	for _, f := range h {
		if f.Kind != history.Fault {
			continue
		}
		if w[f.Fault] == nil {
			w[f.Fault] = map[Phase]int{}
		}
		w[f.Fault][phase(h, runs, f)]++
	}
	return w
}

func phase(h history.History, runs []Run, f history.Event) Phase {
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

// Miss says that no fault proves anything because all struck when nothing ran: no command of the target, or of anybody
// where there is no target. It is "" if one did, or if there were no faults.
func Miss(h history.History) string {
	runs, faults := Runs(h), 0
	for _, f := range h {
		if f.Kind != history.Fault {
			continue
		}
		faults++
		for _, r := range runs {
			if (f.Target == "" || r.Client == f.Target) && r.At <= f.At && f.At <= r.Until {
				return ""
			}
		}
	}
	if faults == 0 {
		return ""
	}
	return "no fault struck while a command ran: they prove nothing"
}
