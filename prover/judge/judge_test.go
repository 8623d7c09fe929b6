package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
)

const second = int64(time.Second)

// life is one of a run, whose client is what stands before its dot.
func life(run string, slot int, term uint64, at, until int64) history.Event {
	client, _, _ := strings.Cut(run, ".")
	return history.Event{Kind: history.Life, Client: client, Run: run, Slot: slot, Term: term, At: at, Until: until}
}

func client(name string, at, until int64) history.Event {
	return history.Event{Kind: history.Client, Client: name, At: at, Until: until}
}

func fault(name, target string, at, until int64) history.Event {
	return history.Event{Kind: history.Fault, Fault: name, Target: target, At: at, Until: until}
}

// of has one checker look at a history of a lock with that many slots.
func of(t *testing.T, name string, slots int, h ...history.Event) judge.Verdict {
	t.Helper()
	all := judge.Judge(h, judge.Bounds{Slots: slots}, name)
	if len(all) != 1 || all[0].Checker != name {
		t.Fatalf("%+v", all)
	}
	return all[0]
}

// is fails the test unless the outcome is that, and there is no violation, or just one with that text.
func is(t *testing.T, v judge.Verdict, outcome judge.Outcome, text string) {
	t.Helper()
	found := ""
	if len(v.Violations) > 0 {
		found = v.Violations[0].What
	}
	if v.Outcome != outcome || len(v.Violations) > 1 || !strings.Contains(found, text) || text == "" && found != "" {
		t.Errorf("%+v; want %s with %q", v, outcome, text)
	}
}

func TestOneAfterTheOtherIsFine(t *testing.T) {
	h := []history.Event{life("b.1", 1, 8, 2001, 3000), life("a.1", 1, 7, 1000, 2000)}
	for _, name := range []string{"overlap", "permits", "terms"} {
		is(t, of(t, name, 1, h...), judge.Kept, "")
	}
	if runs := judge.Runs(h); len(runs) != 2 || runs[0].ID != "a.1" {
		t.Errorf("%+v", runs)
	}
}

func TestSlotThatDoesNotExistIsFound(t *testing.T) {
	for slot, exists := range map[int]bool{0: true, 1: true, 2: true, 3: false} {
		v := of(t, "permits", 2, life("a.1", slot, 7, 1000, 1001), life("b.1", 1, 8, 2000, 2001))
		if exists {
			is(t, v, judge.Kept, "")
		} else {
			is(t, v, judge.Violated, "a slot that does not exist")
		}
	}
}

func TestOverlapIsFoundAndMeasured(t *testing.T) {
	for name, second := range map[string]string{"the same client": "a.2", "another client": "b.1"} {
		h := []history.Event{life("a.1", 1, 7, 1000, 2000), life(second, 1, 8, 1500, 3000)}
		v := of(t, "overlap", 2, h...)
		is(t, v, judge.Violated, "500ns of overlap")
		if o := v.Violations[0]; o.At != 1500 || o.Until != 2000 || len(o.Lives) != 2 {
			t.Errorf("%s: %+v", name, o)
		}
		is(t, of(t, "permits", 2, h...), judge.Kept, "")
		is(t, of(t, "permits", 1, h...), judge.Violated, "2 alive at once, more than slots (1)")
	}
}

func TestOverlapOfOneMomentIsFound(t *testing.T) {
	h := []history.Event{life("a.1", 1, 7, 1000, 2000), life("b.1", 1, 8, 2000, 2000)}
	is(t, of(t, "overlap", 1, h...), judge.Violated, "0s of overlap")
	is(t, of(t, "permits", 1, h...), judge.Violated, "2 alive")
}

func TestOverlapWithARunThatIsNotTheLastIsFound(t *testing.T) {
	v := of(t, "overlap", 3, life("a.1", 1, 7, 1000, 9000), life("b.1", 1, 8, 2000, 2000), life("c.1", 1, 9, 8000, 8000))
	if len(v.Violations) != 2 {
		t.Errorf("%+v", v.Violations)
	}
}

func TestAProcessThatOutlivesItsRunIsPartOfIt(t *testing.T) {
	h := []history.Event{life("a.1", 1, 7, 1000, 2000), life("a.1", 0, 0, 1900, 2600), life("b.1", 1, 8, 2500, 3000)}
	is(t, of(t, "overlap", 2, h...), judge.Violated, "100ns of overlap")
	if runs := judge.Runs(h); len(runs) != 2 || len(runs[0].Lives) != 2 || runs[0].Slot != 1 || runs[0].Until != 2600 {
		t.Errorf("%+v", runs)
	}
}

// Of one slot no command needs to be told, of several each.
func TestCommandsThatAreToldNoSlotOverlapOnlyOnOne(t *testing.T) {
	h := []history.Event{life("a.1", 0, 0, 1000, 2000), life("b.1", 0, 0, 1500, 3000)}
	is(t, of(t, "overlap", 1, h...), judge.Violated, "500ns of overlap")
	is(t, of(t, "overlap", 2, h...), judge.Unknown, "")
	is(t, of(t, "permits", 2, h...), judge.Kept, "")
}

func TestNothingThatRanIsNoVerdict(t *testing.T) {
	for _, v := range judge.Judge(nil, judge.Bounds{}) {
		is(t, v, judge.Unknown, "")
		if v.Note == "" {
			t.Errorf("%s does not tell why", v.Checker)
		}
		if problems := judge.Problems([]judge.Verdict{v}); len(problems) != 1 || !strings.Contains(problems[0], v.Note) {
			t.Errorf("%q", problems)
		}
	}
}

func TestTermsHaveToGrow(t *testing.T) {
	first := life("a.1", 1, 7, 1000, 2000)
	is(t, of(t, "terms", 1, first, life("b.1", 1, 6, 3000, 3000)), judge.Violated, "term did not grow")
	is(t, of(t, "terms", 1, first, life("b.1", 1, 7, 3000, 3000)), judge.Violated, "term did not grow")
	is(t, of(t, "terms", 1, first, life("a.2", 1, 7, 3000, 3000)), judge.Kept, "") // a hook of the command
	is(t, of(t, "terms", 1, first, life("b.1", 1, 8, 3000, 3000), life("a.2", 1, 7, 4000, 4000)), judge.Violated,
		"term did not grow")
	is(t, of(t, "terms", 2, first, life("b.1", 2, 6, 3000, 3000)), judge.Kept, "")
	is(t, of(t, "terms", 1, first, life("b.1", 1, 0, 3000, 3000)), judge.Unknown, "")
	is(t, of(t, "terms", 1, life("b.1", 1, 0, 3000, 3000)), judge.Unknown, "")
}

func TestSlotsAreThoseOfTheHistoryUnlessGiven(t *testing.T) {
	h := history.History{{Kind: history.Lock, Slots: 2}, life("a.1", 0, 0, 1, 5), life("b.1", 0, 0, 2, 5)}
	for slots, want := range map[int]judge.Outcome{0: judge.Kept, 1: judge.Violated} {
		if v := judge.Judge(h, judge.Bounds{Slots: slots}, "permits")[0]; v.Outcome != want {
			t.Errorf("%d: %+v", slots, v)
		}
	}
}

func TestWhatLivesOnAfterItsClientIsFound(t *testing.T) {
	lived := life("a.1", 1, 1, 1*second, 10*second)
	is(t, of(t, "orphans", 1, lived, client("a", 0, 9500*second/1000)), judge.Kept, "")
	is(t, of(t, "orphans", 1, lived, client("a", 0, 8*second)), judge.Violated, "lived on for 2s")
	is(t, of(t, "orphans", 1, lived, client("a", 0, 8*second), fault("stop", "a", 1, 2)), judge.Violated, "lived on")
	is(t, of(t, "orphans", 1, lived, client("a", 0, 8*second), client("b", 0, second), life("b.1", 1, 1, 0, second),
		fault("kill", "a", 7*second, 7*second)), judge.Kept, "")
	is(t, of(t, "orphans", 1, lived, client("a", 0, 8*second), client("b", 0, second), life("b.1", 1, 1, 0, second),
		fault("kill", "", 7*second, 9*second)), judge.Kept, "")
	is(t, of(t, "orphans", 1, lived, client("a", 0, 8*second), fault("kill", "", 8500*second/1000, 9*second)),
		judge.Violated, "lived on")
	is(t, of(t, "orphans", 1, lived, client("a", 0, 8*second), fault("freeze", "a", 7*second, 7*second)), judge.Violated,
		"lived on")
	is(t, of(t, "orphans", 1, lived, client("a", 0, 0)), judge.Unknown, "")
	is(t, of(t, "orphans", 1, lived, client("b", 0, second)), judge.Unknown, "")
	left := history.Event{Kind: history.Leftover, Client: "b", PID: 17, At: 3 * second}
	is(t, of(t, "orphans", 1, left, client("b", 0, second)), judge.Violated, "process 17 was left of client b")
	v := of(t, "orphans", 1, left, client("a", 0, second))
	if is(t, v, judge.Unknown, ""); !strings.Contains(v.Note, "process 17 was left, of a client b") {
		t.Errorf("%+v", v)
	}
}

func TestOneCommandIsNoVerdict(t *testing.T) {
	for _, name := range []string{"overlap", "permits"} {
		is(t, of(t, name, 1, life("a.1", 1, 1, 0, second)), judge.Unknown, "")
	}
}

func TestWindowsCountWhatFaultsHit(t *testing.T) {
	h := history.History{
		{Kind: history.Lock, Slots: 1, Faults: []string{"kill", "reset"}},
		client("a", 0, 20*second), life("a.1", 1, 1, 5*second, 9*second),
		fault("kill", "a", second, second), fault("kill", "a", 5500*second/1000, 6*second),
		fault("kill", "a", 7*second, 7*second), fault("stop", "a", 8*second, 8*second),
		fault("kill", "a", 21*second, 21*second), fault("cut", "", 7*second, 8*second),
		fault(history.End, "", 22*second, 24*second), fault("kill", "a", 23*second, 23*second),
	}
	got := fmt.Sprint(judge.Hits(h))
	const want = "map[cut:map[other:1 running:0 waiting:0 young:0] kill:map[other:1 running:1 waiting:1 young:1] " +
		"reset:map[other:0 running:0 waiting:0 young:0] stop:map[other:0 running:1 waiting:0 young:0]]"
	if got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestCheckersAreDescribed(t *testing.T) {
	for _, c := range judge.Checkers {
		if c.Name == "" || c.About == "" || strings.HasSuffix(c.About, ".") {
			t.Errorf("%+v", c)
		}
	}
}
