package judge_test

import (
	"strings"
	"testing"

	"berth/prover/history"
	"berth/prover/judge"
)

// update is one by a run of the numbers after one up to another one.
func update(run string, at, until int64, read, wrote uint64) history.Event {
	return history.Event{Kind: history.Update, Run: run, At: at, Until: until, Read: read, Wrote: wrote}
}

func refused(e history.Event) history.Event {
	e.Refused = true
	return e
}

func TestUpdateThatAnotherOneOverwritesIsFound(t *testing.T) {
	a, b := life("a.1", 1, 7, 1000, 2000), life("b.1", 2, 8, 1500, 3000)
	one, two := update("a.1", 1000, 2000, 0, 40), update("b.1", 1500, 3000, 30, 90)
	for _, h := range [][]history.Event{{a, b, one, two}, {two, b, one, a}} {
		is(t, of(t, "updates", 2, h...), judge.Kept, "")
		for i := range h {
			h[i].Slot = min(1, h[i].Slot)
		}
		v := of(t, "updates", 2, h...)
		is(t, v, judge.Violated, "updates lost: 10, from number 31 on")
		if found := v.Violations[0]; found.At != 1500 || found.Until != 2000 || len(found.Lives) != 2 {
			t.Errorf("%+v", found)
		}
	}
	b.Slot = 1
	v := of(t, "updates", 1, a, b, one, update("b.1", 2000, 3000, 40, 90))
	if is(t, v, judge.Kept, ""); v.Note != "90 updates, and 0 refused" {
		t.Errorf("%q", v.Note)
	}
	is(t, of(t, "updates", 1, a, b, one, update("b.1", 2000, 3000, 41, 90)), judge.Kept, "") // what wrote 41 was killed then
}

// A late write takes the number back, and whatever follows from there.
func TestNumberThatComesAgainIsFound(t *testing.T) {
	v := of(t, "updates", 1, life("a.1", 1, 0, 1000, 9000), life("b.1", 1, 0, 2000, 8000), life("c.1", 1, 0, 9500, 9900),
		update("c.1", 9500, 9900, 6, 400), update("b.1", 2000, 8000, 5, 50), update("a.1", 1000, 9000, 0, 6))
	if len(v.Violations) != 2 || !strings.HasPrefix(v.Violations[0].What, "updates lost: 1, from number 6 on") ||
		!strings.HasPrefix(v.Violations[1].What, "updates lost: 44, from number 7 on") {
		t.Errorf("%+v", v)
	}
}

func TestRefusedUpdateOfTheOnlyCommandIsFound(t *testing.T) {
	a, late := life("a.1", 1, 7, 1000, 5000), refused(update("a.1", 3990, 4000, 1, 2))
	is(t, of(t, "updates", 1, a, late), judge.Violated, "the only command on its slot was refused an update")
	for name, c := range map[string]struct {
		other history.Event
		fine  bool
	}{
		"had begun since":          {life("b.1", 1, 8, 2000, 3000), true},
		"lived before it, and now": {life("b.1", 1, 8, 500, 4000), true},
		"was dead":                 {life("b.1", 1, 8, 500, 999), false},
		"came later":               {life("b.1", 1, 8, 4001, 6000), false},
		"was on another slot":      {life("b.1", 2, 8, 2000, 6000), false},
	} {
		v := of(t, "updates", 2, a, late, c.other)
		if (v.Outcome == judge.Kept) != c.fine {
			t.Errorf("another one that %s: %+v", name, v)
		}
	}
}

func TestUpdatesThatCannotBeToldApartAreNoVerdict(t *testing.T) {
	a, b := life("a.1", 0, 0, 1000, 2000), life("b.1", 0, 0, 1500, 3000)
	one, two := update("a.1", 1000, 2000, 0, 40), update("b.1", 1500, 3000, 30, 90)
	for want, v := range map[string]judge.Verdict{
		"0 of 2 commands were told their slot": of(t, "updates", 2, a, b, one, two),
		"the history has no updates":           of(t, "updates", 1, a, b),
		"run b.1 has updates, and no life":     of(t, "updates", 1, a, one, two),
	} {
		if is(t, v, judge.Unknown, ""); !strings.Contains(v.Note, want) {
			t.Errorf("%q, and not %q", v.Note, want)
		}
	}
	is(t, of(t, "updates", 1, a, b, one, two), judge.Violated, "updates lost")
}
