// Package checker judges what witnesses wrote down: whether two commands were ever
// alive on one slot at once, or more than there are slots, and whether terms only
// grew. It shares no code with berth.
package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Run is one command, with everything it started, from the first to the last
// sign of life of any of them.
type Run struct {
	Slot   int
	Term   uint64
	Holder string // which berth started it

	// Nanoseconds on CLOCK_BOOTTIME. Life between two signs of it is counted;
	// what comes within a millisecond or so after the last one is not seen.
	First, Last int64

	Processes int // how many left a record
}

func (r Run) String() string {
	return fmt.Sprintf("holder %s, slot %d, term %d, alive from %d to %d", r.Holder, r.Slot, r.Term, r.First, r.Last)
}

// same reports whether two records are of one run.
func (r Run) same(o Run) bool {
	return r.Slot == o.Slot && r.Term == o.Term && r.Holder == o.Holder
}

// Overlap is a time in which two commands were alive that must not be.
type Overlap struct {
	A, B Run
	For  time.Duration
}

func (o Overlap) String() string { return fmt.Sprintf("%s of overlap: %s; %s", o.For, o.A, o.B) }

// Verdict is what the records prove.
type Verdict struct {
	Runs     []Run     // in order of their start
	Overlaps []Overlap // two runs on one slot
	Most     int       // the most runs that were alive at once
	Problems []string  // every violation, overlaps among them, for people
}

// OK reports whether nothing was violated.
func (v Verdict) OK() bool { return len(v.Problems) == 0 }

// Overlapped returns how long commands overlapped, added up.
func (v Verdict) Overlapped() time.Duration {
	var all time.Duration
	for _, o := range v.Overlaps {
		all += o.For
	}
	return all
}

// Next returns the first run that began after the given moment.
func (v Verdict) Next(after int64) (Run, bool) {
	for _, r := range v.Runs {
		if r.First > after {
			return r, true
		}
	}
	return Run{}, false
}

// Judge judges the runs on a lock with that many slots.
func Judge(runs []Run, slots int) Verdict {
	v := Verdict{Runs: slices.Clone(runs)}
	slices.SortFunc(v.Runs, func(a, b Run) int { return cmp.Compare(a.First, b.First) })
	last := map[int]Run{} // by slot
	for i, r := range v.Runs {
		if r.Slot < 1 || r.Slot > slots {
			v.blame("a slot that does not exist: %s", r)
		}
		if before, any := last[r.Slot]; any && r.Term <= before.Term {
			v.blame("the term did not grow: %s; then %s", before, r)
		}
		last[r.Slot] = r
		for _, earlier := range v.Runs[:i] {
			if earlier.Slot == r.Slot && earlier.Last >= r.First {
				o := Overlap{earlier, r, time.Duration(min(earlier.Last, r.Last) - r.First)}
				v.Overlaps = append(v.Overlaps, o)
				v.blame("%s", o)
			}
		}
	}
	v.Most = most(v.Runs)
	if v.Most > slots {
		v.blame("%d alive at once, on %d slots", v.Most, slots)
	}
	return v
}

func (v *Verdict) blame(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

// most returns how many runs were alive at once at most. Of two that meet in one
// nanosecond both were alive in it.
func most(runs []Run) int {
	type event struct {
		at   int64
		step int
	}
	var events []event
	for _, r := range runs {
		events = append(events, event{r.First, 1}, event{r.Last, -1})
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step))
	})
	alive, most := 0, 0
	for _, e := range events {
		alive += e.step
		most = max(most, alive)
	}
	return most
}
