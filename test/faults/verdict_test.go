package faults

import (
	"slices"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
)

// verdict is what the records prove.
type verdict struct {
	Runs     []judge.Run       // in order of their start
	Overlaps []judge.Violation // two runs on one slot
	Problems []string          // every violation, overlaps among them, and commands that berth told no slot
}

func judged(lives history.History, slots int) verdict {
	all := judge.Judge(lives, judge.Bounds{Slots: slots}, "overlap", "permits", "terms")
	v := verdict{Runs: judge.Runs(lives), Overlaps: all[0].Violations}
	if len(v.Runs) == 1 { // of which nothing else is known
		all = slices.DeleteFunc(all, func(one judge.Verdict) bool { return one.Outcome == judge.Unknown })
	}
	v.Problems = judge.Problems(all)
	for _, r := range v.Runs {
		if r.Slot == 0 {
			v.Problems = append(v.Problems, "it was told no slot: "+r.String())
		}
	}
	return v
}

// Overlapped returns how long commands overlapped, added up.
func (v verdict) Overlapped() (all time.Duration) {
	for _, o := range v.Overlaps {
		all += time.Duration(o.Until - o.At)
	}
	return all
}

// next returns the first command that began after the given moment. A hook that is a witness is none: it has client, slot
// and term of the command before it.
func next(runs []judge.Run, after int64) (judge.Run, bool) {
	began := map[[3]any]bool{}
	for _, r := range runs {
		command := [3]any{r.Client, r.Slot, r.Term}
		if r.At > after && !began[command] {
			return r, true
		}
		began[command] = true
	}
	return judge.Run{}, false
}
