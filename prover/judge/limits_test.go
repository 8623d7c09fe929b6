package judge_test

import (
	"strings"
	"testing"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
)

// What was frozen runs on for a moment, and no longer.
func TestLimitEndsSoonAfterTheFault(t *testing.T) {
	freeze := fault("freeze", "c1", 5*second, 5*second+1)
	freeze.Allows = []string{"overlap", "permits"}
	for until, want := range map[int64]judge.Outcome{5800: judge.Kept, 60000: judge.Violated} {
		text := map[judge.Outcome]string{judge.Violated: "a command of c2 on slot 1"}[want]
		h := []history.Event{freeze, client("c1", 0, 70*second), client("c2", 0, 70*second),
			life("c1.1", 1, 1, second, until*second/1000), life("c2.1", 1, 2, 5500*second/1000, 65*second)}
		for _, name := range []string{"overlap", "permits"} {
			is(t, of(t, name, 1, h...), want, text)
		}
	}
}

func TestFrozenBystanderExcusesNoOthers(t *testing.T) {
	freeze := fault("freeze", "c1", 4*second, 6*second)
	freeze.Allows = []string{"permits"}
	h := []history.Event{freeze, client("c1", 0, 9*second), life("c1.1", 0, 0, second, 5*second), life("c2.1", 0, 0, second, 9*second),
		life("c3.1", 0, 0, 4500*second/1000, 9*second), life("c4.1", 0, 0, 4600*second/1000, 9*second)}
	is(t, of(t, "permits", 2, h...), judge.Violated, "3 alive at once")
}

// Each has two commands that overlap at 7 s, of which a fault strikes the client of the first from 5 to 6 s.
func TestFaultAllowsWhatFollowsItAtOnce(t *testing.T) {
	overlap := []history.Event{client("a", 0, 0), client("b", 0, 0), client("c", 0, 0),
		life("a.1", 1, 7, second, 8*second), life("b.1", 1, 8, 7*second, 9*second)}
	for name, c := range map[string]struct {
		target  string
		until   int64
		allows  string
		allowed bool
	}{
		"the client's":             {"a", 6 * second, "overlap", true},
		"another checker's":        {"a", 6 * second, "permits", false},
		"long after the client's":  {"a", 5 * second, "overlap", false},
		"another client's":         {"c", 6 * second, "overlap", false},
		"all clients'":             {"", 5 * second, "overlap", true},
		"a node's":                 {"n1", 5 * second, "overlap", true},
		"all clients', and others": {"", 5 * second, "permits", false},
	} {
		f := fault("freeze", c.target, 4*second, c.until)
		f.Allows = []string{c.allows}
		v := of(t, "overlap", 1, append(overlap, f)...)
		if c.allowed {
			is(t, v, judge.Kept, "")
		} else {
			is(t, v, judge.Violated, "of overlap")
		}
		if len(v.Violations)+len(v.Limits) != 1 || c.allowed != (len(v.Limits) == 1 && strings.HasPrefix(v.Limits[0].What, "limit: ")) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	long := fault("purge", "", second, second)
	long.Allows = []string{"overlap"}
	if v := judge.Judge(append(overlap, long), judge.Bounds{Progress: 5 * time.Second}, "overlap")[0]; len(v.Limits) > 0 {
		t.Errorf("later than a lock has to recover: %+v", v)
	}
}

// Permits tells of more than there ever were before; what is allowed must not hide what is not.
func TestWhatIsAllowedHidesNothing(t *testing.T) {
	f := fault("freeze", "a", 2*second, 3*second)
	f.Allows = []string{"permits"}
	v := of(t, "permits", 1, f, client("a", 0, 0), life("a.1", 0, 0, second, 4*second), life("b.1", 0, 0, 3*second, 4*second),
		life("b.2", 0, 0, 20*second, 30*second), life("c.1", 0, 0, 25*second, 26*second))
	is(t, v, judge.Violated, "2 alive at once")
	if len(v.Limits) != 1 {
		t.Errorf("%+v", v)
	}
}

func TestFaultThatFailedHasHitNothing(t *testing.T) {
	f := fault("resize", "", second, second)
	f.Failed = "status 1"
	h := history.History{{Kind: history.Lock, Slots: 1, Faults: []string{"resize"}}, f}
	if n := judge.Hits(h)["resize"][judge.Other]; n != 0 {
		t.Errorf("%d hits", n)
	}
}
