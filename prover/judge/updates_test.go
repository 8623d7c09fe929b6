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

// A late write takes the number back. What goes on from there loses nothing.
func TestLateWriteIsBlamedForAllThatItTakesBack(t *testing.T) {
	a, b := life("a.1", 1, 0, 1*second, 9*second), life("b.1", 1, 0, 2*second, 8*second)
	c, d := life("c.1", 1, 0, 20*second, 25*second), life("d.1", 1, 0, 26*second, 28*second)
	h := []history.Event{client("a", 0, 0), client("b", 0, 0), client("c", 0, 0), client("d", 0, 0), a, b, c, d,
		update("d.1", 26*second, 28*second, 30, 400), update("c.1", 20*second, 25*second, 6, 30),
		update("b.1", 2*second, 8*second, 5, 50), update("a.1", second, 9*second, 0, 6)}
	v := of(t, "updates", 1, h...)
	is(t, v, judge.Violated, "updates lost: 45, from number 6 on: a command of a on slot 1")
	if found := v.Violations[0]; found.At != 2*second || found.Until != 8*second || len(found.Lives) != 2 {
		t.Errorf("%+v", found)
	}
	freeze := fault("freeze", "a", 1500*second/1000, 8500*second/1000)
	freeze.Allows = []string{"updates"}
	if v := of(t, "updates", 1, append(h, freeze)...); v.Outcome != judge.Kept || len(v.Limits) != 1 {
		t.Errorf("of a command that was frozen: %+v", v)
	}
	meet := append(h, freeze, life("e.1", 1, 0, 27*second, 29*second), update("e.1", 27*second, 29*second, 200, 210))
	is(t, of(t, "updates", 1, meet...), judge.Violated, "updates lost: 10, from number 201 on: a command of d")
}

// The one that had written 5 first was killed as it did: a's late write shows in c's updates alone.
func TestFrozenCommandThatGoesOnFromALateWriteExcusesNone(t *testing.T) {
	freeze := fault("freeze", "c", 21*second, 22*second)
	freeze.Allows = []string{"updates"}
	is(t, of(t, "updates", 1, freeze, client("a", 0, 0), client("b", 0, 0), client("c", 0, 0), life("a.1", 1, 0, second, 19*second),
		life("b.1", 1, 0, 3*second, 8*second), life("c.1", 1, 0, 22*second, 25*second), update("a.1", second, 19*second, 3, 5),
		update("b.1", 3*second, 8*second, 5, 50), update("c.1", 22*second, 25*second, 5, 9)), judge.Violated,
		"updates lost: 4, from number 6 on: a command of b")
}

// Nobody is seen to have written what c read.
func TestUpdatesLostToAWriteThatIsMissingAreFound(t *testing.T) {
	is(t, of(t, "updates", 1, life("b.1", 1, 0, 2000, 8000), life("c.1", 1, 0, 9500, 9900), update("b.1", 2000, 8000, 5, 50),
		update("c.1", 9500, 9900, 6, 400)), judge.Violated, "updates lost: 44, from number 7 on")
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
