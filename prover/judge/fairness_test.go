package judge_test

import (
	"strings"
	"testing"

	"berth/prover/history"
	"berth/prover/judge"
)

// served is a history of a lock that five clients wait for from 60 s on, a to e, each of which came so long after the one
// before. It serves them in an order, one each 2 s.
func served(order string, apart int64, more ...history.Event) history.History {
	h := history.History(more)
	for i, name := range order {
		at := (60 + 2*int64(i)) * second
		h = append(h, client(string(name), int64(name-'a')*apart, at+second), life(string(name)+".1", 1, 0, at, at+second))
	}
	return h
}

func TestClientThatOthersOvertakeIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		h      history.History
		bypass int
		want   judge.Outcome
		text   string // of the violation, or the note
	}{
		"in order":               {served("abcde", 10*second), 1, judge.Kept, "overtaken 0 times"},
		"the first is last":      {served("bcdea", 10*second), 3, judge.Violated, "while 4 that had come later got a slot"},
		"as often as promised":   {served("bcade", 10*second), 2, judge.Kept, "overtaken 2 times"},
		"one more often":         {served("bcade", 10*second), 1, judge.Violated, "while 2 that had come later"},
		"too few could have":     {served("bcdea", 10*second), 4, judge.Unknown, "too few turns"},
		"nothing is promised":    {served("bcdea", 10*second), 0, judge.Unknown, "no --bypass is promised: clients were overtaken 4 times"},
		"they came together":     {served("bcdea", second), 1, judge.Unknown, "in 0 turns"},
		"a fault lasts":          {served("bcdea", 10*second, fault("cut", "a", second, 99*second)), 1, judge.Unknown, "in 0 turns"},
		"a fault in between":     {served("bcdea", 10*second, fault("cut", "e", 61*second, 61*second)), 1, judge.Unknown, "in 1 turns"},
		"one that gets nothing":  {append(served("bcde", 10*second), client("a", 0, 0)), 2, judge.Violated, "while 3 that"},
		"one that waits again":   {served("abcde", 10*second, life("a.2", 1, 0, 90*second, 91*second)), 1, judge.Kept, "overtaken 0"},
		"one that came and left": {append(served("bcde", 10*second), client("a", 0, 50*second)), 1, judge.Kept, "overtaken 0"},
	} {
		v := judge.Judge(c.h, judge.Bounds{Bypass: c.bypass}, "fairness")[0]
		text := v.Note
		if len(v.Violations) == 1 {
			text = v.Violations[0].What
		}
		if v.Outcome != c.want || !strings.Contains(text, c.text) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
