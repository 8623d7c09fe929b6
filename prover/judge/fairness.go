package judge

import (
	"cmp"
	"fmt"
	"slices"

	"berth/prover/history"
)

// joining is how much later a client has to come to count as later: to stand in line, the doorway, takes a moment.
const joining = releasing

// turn is a client that waits, and gets a command or leaves.
type turn struct {
	came, until int64
	run         Run   // none: it got no command
	since       int64 // when it came, or the last fault was over
	passed      int   // how often it was overtaken since then
}

// fairness finds clients that others overtook more often than is promised: bounded bypass after the doorway
// (https://arxiv.org/abs/2606.19003), by those alone that had come later. Each fault starts that anew, and nothing counts
// while one lasts.
func fairness(m *matter) Verdict {
	var found []Violation
	choices, most := 0, 0 // how often somebody could be overtaken, and how often one was
	turns := m.turns()
	for i, t := range turns {
		calm, broken := m.calm(t.until)
		if broken || t.run.ID == "" {
			continue
		}
		choice := false
		for _, other := range turns[i+1:] {
			if since := max(other.came, calm); since > other.since {
				other.since, other.passed = since, 0
			}
			later := max(t.came, calm) - other.since
			if other.since >= t.until {
				continue
			}
			choice = choice || max(later, -later) > int64(joining)
			if later > int64(joining) {
				other.passed++
				most = max(most, other.passed)
			}
			if later > int64(joining) && other.passed == m.bounds.Bypass+1 {
				found = append(found, blame(other.since, t.until, []Run{t.run}, "a client waited on while %d that had come later got a "+
					"slot, the last of them %s", other.passed, t.run))
			}
		}
		if choice {
			choices++
		}
	}
	seen := fmt.Sprintf("clients were overtaken %d times at most; in %d turns one could be", most, choices)
	switch {
	case m.bounds.Bypass == 0:
		return unless("no --bypass is promised: "+seen, nil)
	case choices <= m.bounds.Bypass:
		return unless("too few turns without faults: "+seen, found)
	}
	v := unless("", found)
	v.Note = seen
	return v
}

// turns returns all in order of their end.
func (m *matter) turns() (all []*turn) {
	came := map[string]int64{} // since when clients wait
	for _, e := range m.history {
		if e.Kind == history.Client {
			came[e.Client] = e.At
		}
	}
	for _, r := range m.runs {
		if at, known := came[r.Client]; known {
			all = append(all, &turn{came: at, until: r.At, run: r})
			came[r.Client] = max(at, r.Until+int64(releasing))
		}
	}
	for _, e := range m.history {
		if until := cmp.Or(e.Until, m.end); e.Kind == history.Client && came[e.Client] < until {
			all = append(all, &turn{came: came[e.Client], until: until})
		}
	}
	slices.SortStableFunc(all, func(a, b *turn) int { return cmp.Compare(a.until, b.until) })
	return all
}

// calm returns when the last fault before a moment was over, and whether one lasts.
func (m *matter) calm(at int64) (since int64, broken bool) {
	for _, e := range m.history {
		if e.Kind == history.Fault && e.At <= at {
			since, broken = max(since, e.Until), broken || e.Until >= at
		}
	}
	return since, broken
}
