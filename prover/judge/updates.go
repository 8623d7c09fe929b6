package judge

import (
	"cmp"
	"fmt"
	"slices"

	"berth/prover/history"
)

// updates looks at what commands have done to a number, one for each slot, in a store that refuses lower terms. Two that
// wrote the same number, and were not refused, had both read the one before it: one update is lost. What a command wrote as
// it was killed may be missing, so no number has to be there.
func updates(m *matter) (v Verdict) {
	runs := map[string]Run{}
	for _, r := range m.runs {
		runs[r.ID] = r
	}
	all := slices.DeleteFunc(slices.Clone(m.history), func(e history.Event) bool { return e.Kind != history.Update })
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.Read, b.Read) })
	var others []history.Event // that have written the next number too
	wrote, refused := uint64(0), 0
	for _, e := range all {
		r, known := runs[e.Run]
		others = slices.DeleteFunc(others, func(o history.Event) bool { return o.Wrote <= e.Read })
		switch {
		case !known:
			v.Note = fmt.Sprintf("run %s has updates, and no life", e.Run)
		case m.slot(r) == 0:
			v.Note = "each slot has a number of its own, and " + m.slotless()
		case e.Refused:
			refused++
			if m.alone(r, e.Until) {
				v.Violations = append(v.Violations, blame(e.At, e.Until, []Run{r}, "the only command on its slot was refused "+
					"an update: %s", r))
			}
		default:
			wrote += e.Wrote - e.Read
			for _, o := range others {
				if other := runs[o.Run]; other.Slot == r.Slot { // as they were told: that is where they write
					at := max(o.At, e.At)
					v.Violations = append(v.Violations, blame(at, max(at, min(o.Until, e.Until)), []Run{other, r},
						"updates lost: %d, from number %d on: %s; %s", min(o.Wrote, e.Wrote)-e.Read, e.Read+1, other, r))
				}
			}
			others = append(others, e)
		}
	}
	if len(all) == 0 {
		v.Note = "the history has no updates"
	}
	slices.SortStableFunc(v.Violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	if v = unless(v.Note, v.Violations); v.Outcome == Kept {
		v.Note = fmt.Sprintf("%d updates, and %d refused", wrote, refused)
	}
	return v
}

// alone reports whether a run had its slot to itself at a moment: no other one lived there, or had begun meanwhile.
func (m *matter) alone(r Run, at int64) bool {
	return !slices.ContainsFunc(m.runs, func(o Run) bool {
		return o.ID != r.ID && m.slot(o) == m.slot(r) && o.At <= at && (o.At >= r.At || o.Until >= at)
	})
}
