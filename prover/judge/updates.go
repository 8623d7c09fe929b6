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
	var lost []*loss
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
				if runs[o.Run].Slot == r.Slot { // as they were told: that is where they write
					lost = lose(lost, o, e, slices.DeleteFunc(slices.Clone(all), func(e history.Event) bool {
						by, known := runs[e.Run]
						return !known || e.Refused || by.Slot != r.Slot
					}))
				}
			}
			others = append(others, e)
		}
	}
	for _, l := range lost {
		a, b := runs[l.one.Run], runs[l.other.Run]
		at := max(l.one.At, l.other.At)
		v.Violations = append(v.Violations, blame(at, max(at, min(l.one.Until, l.other.Until)), []Run{a, b},
			"updates lost: %d, from number %d on: %s; %s", l.n, l.from, a, b))
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

// loss is what two runs have lost of each other's updates.
type loss struct {
	one, other history.Event
	from, n    uint64
}

// lose adds that e, who read no lower number than o did, wrote the same ones. If one had read after the other's last write,
// neither has met the other: who took the number back in between is to blame, and not who went on from there.
func lose(lost []*loss, o, e history.Event, all []history.Event) []*loss {
	first, n := e.Read+1, min(o.Wrote, e.Wrote)-e.Read
	if e.At > o.Until {
		e = back(e, o, all)
	} else if o.At > e.Until {
		o = back(o, e, all)
	}
	for _, l := range lost {
		if l.one.Run == o.Run && l.other.Run == e.Run || l.one.Run == e.Run && l.other.Run == o.Run {
			l.from, l.n = min(l.from, first), l.n+n
			return lost
		}
	}
	return append(lost, &loss{o, e, first, n})
}

// back returns who took the number back after the last write of an earlier one, from where the later one went on; the later
// one if nobody is seen to have: what a command wrote as it was killed may be missing.
func back(later, earlier history.Event, all []history.Event) history.Event {
	for by := later; ; {
		i := slices.IndexFunc(all, func(o history.Event) bool { // wrote what that one read, after the earlier one
			return o.At < by.At && o.Until > earlier.Until && o.Read < by.Read &&
				(o.Wrote == by.Read || o.Wrote > by.Read && o.Until > by.At)
		})
		if i < 0 {
			return later
		}
		if by = all[i]; by.At <= earlier.Until {
			return by
		}
	}
}

// alone reports whether a run had its slot to itself at a moment: no other one lived there, or had begun meanwhile.
func (m *matter) alone(r Run, at int64) bool {
	return !slices.ContainsFunc(m.runs, func(o Run) bool {
		return o.ID != r.ID && m.slot(o) == m.slot(r) && o.At <= at && (o.At >= r.At || o.Until >= at)
	})
}
