package faults

import (
	"time"

	"berth/prover/history"
	"berth/prover/judge"
)

// verdict is what the records prove.
type verdict struct {
	Runs     []judge.Run       // in order of their start
	Overlaps []judge.Violation // two runs on one slot
	Problems []string          // every violation, overlaps among them, and what berth tells no command
}

func judged(lives history.History, slots int) verdict {
	all := judge.Judge(lives, judge.Bounds{Slots: slots}, "overlap", "permits", "terms")
	return verdict{Runs: judge.Runs(lives), Overlaps: all[0].Violations, Problems: judge.Problems(all)}
}

// Overlapped returns how long commands overlapped, added up.
func (v verdict) Overlapped() (all time.Duration) {
	for _, o := range v.Overlaps {
		all += time.Duration(o.Until - o.At)
	}
	return all
}

// Next returns the first run that began after the given moment.
func (v verdict) Next(after int64) (judge.Run, bool) {
	for _, r := range v.Runs {
		if r.At > after {
			return r, true
		}
	}
	return judge.Run{}, false
}
