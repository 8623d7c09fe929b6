package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/prover/history"
)

// Run is one command, with everything that it started, from the first to the last sign of life of any of them.
type Run struct {
	ID, Client string

	// What any of its processes was told; 0: none was told anything.
	Slot int
	Term uint64

	At, Until int64 // as in history.Event

	Lives []history.Event // in order of their start
}

// String names the run for people, with what it was told.
func (r Run) String() string {
	text := "a command of " + r.Client
	if r.Slot > 0 {
		text += fmt.Sprintf(" on slot %d", r.Slot)
	}
	if r.Term > 0 {
		text += fmt.Sprintf(" with term %d", r.Term)
	}
	return fmt.Sprintf("%s, alive from %s to %s", text, length(r.At), length(r.Until))
}

// length is a time of the history for people: three digits or more of it.
func length(ns int64) time.Duration {
	d := time.Duration(ns)
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(time.Microsecond)
	}
	return d
}

// Runs returns what was run, in order of the start.
func Runs(h history.History) []Run {
	lives := slices.DeleteFunc(slices.Clone(h), func(e history.Event) bool { return e.Kind != history.Life })
	slices.SortStableFunc(lives, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	var runs []Run
	index := map[string]int{} // of runs, by ID
	for _, l := range lives {
		i, known := index[l.Run]
		if !known {
			i = len(runs)
			index[l.Run] = i
			runs = append(runs, Run{ID: l.Run, Client: l.Client, At: l.At})
		}
		r := &runs[i]
		r.Until = max(r.Until, l.Until)
		r.Slot, r.Term = cmp.Or(r.Slot, l.Slot), cmp.Or(r.Term, l.Term)
		r.Lives = append(r.Lives, l)
	}
	return runs
}

// blame is a violation by these runs.
func blame(at, until int64, runs []Run, format string, args ...any) Violation {
	v := Violation{At: at, Until: until, What: fmt.Sprintf(format, args...)}
	for _, r := range runs {
		v.Lives = append(v.Lives, r.Lives...)
	}
	return v
}
