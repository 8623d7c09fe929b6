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

func TestSlotThatDoesNotExistIsNoneOfThoseThatAreFree(t *testing.T) {
	is(t, of(t, "progress", 2, client("a", 0, 90*second), client("b", 0, 90*second), life("c.1", 1, 1, 0, 90*second),
		life("d.1", 3, 1, 0, 90*second)), judge.Violated, "slot 2 was free for 1m30s")
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

func TestSlotsAreThoseOfTheHistoryUnlessGiven(t *testing.T) {
	h := history.History{{Kind: history.Lock, Slots: 2}, life("a.1", 0, 0, 1, 5), life("b.1", 0, 0, 2, 5)}
	for slots, want := range map[int]judge.Outcome{0: judge.Kept, 1: judge.Violated} {
		if v := judge.Judge(h, judge.Bounds{Slots: slots}, "permits")[0]; v.Outcome != want {
			t.Errorf("%d: %+v", slots, v)
		}
	}
}

func TestFreeSlotHasToBeTaken(t *testing.T) {
	held := life("a.1", 1, 1, 1*second, 10*second)
	a, b := client("a", 0, 10*second), client("b", 0, 90*second)
	for name, c := range map[string]struct {
		h    []history.Event
		text string
	}{
		"in time":                       {[]history.Event{held, a, b, life("b.1", 1, 2, 39*second, 90*second)}, ""},
		"too late":                      {[]history.Event{held, a, b, life("b.1", 1, 2, 41*second, 90*second)}, "a slot was free for 31s"},
		"never":                         {[]history.Event{held, a, b}, "a slot was free for 1m20s"},
		"no client waited for long":     {[]history.Event{held, a, client("b", 0, 12*second), client("c", 89*second, 0), fault("x", "", 90*second, 90*second)}, ""},
		"in time after a fault":         {[]history.Event{held, a, b, life("b.1", 1, 2, 60*second, 90*second), fault("cut", "b", 12*second, 31*second)}, ""},
		"too late after a fault":        {[]history.Event{held, a, b, life("b.1", 1, 2, 62*second, 90*second), fault("cut", "b", 12*second, 31*second)}, "free for 31s"},
		"in time after one of a moment": {[]history.Event{held, a, b, life("b.1", 1, 2, 60*second, 90*second), fault("kill", "b", 31*second, 31*second)}, ""},
	} {
		v := of(t, "progress", 1, c.h...)
		outcome := judge.Kept
		if c.text != "" {
			outcome = judge.Violated
		}
		t.Run(name, func(t *testing.T) { is(t, v, outcome, c.text) })
	}
}

// Others' handovers do not hide a slot that no client takes.
func TestEachSlotHasToBeTaken(t *testing.T) {
	h := []history.Event{client("v", 0, 100*second), client("w", 0, 100*second), life("z.1", 2, 1, 0, second)}
	for i := range int64(50) {
		h = append(h, life(fmt.Sprintf("a.%d", i), 1, uint64(i+1), 2*i*second, (2*i+1)*second))
	}
	is(t, of(t, "progress", 2, h...), judge.Violated, "slot 2 was free for 1m39s while clients waited")
	for i := range h {
		h[i].Slot = 0
	}
	is(t, of(t, "progress", 2, h...), judge.Unknown, "") // which slot it was is not known
}

// Where more slots are free than clients wait, no slot is denied, but each client.
func TestSlotIsDeniedWhileThereIsAClientForEachThatIsFree(t *testing.T) {
	h := []history.Event{life("z.1", 2, 1, 0, 10)}
	for i := range int64(50) {
		name, at := fmt.Sprintf("c%d", i), i*second
		h = append(h, client(name, at, at+second), life(name+".1", 1, uint64(i+1), at+900*second/1000, at+second))
	}
	is(t, of(t, "progress", 2, h...), judge.Kept, "")
	is(t, of(t, "progress", 3, append(h, client("50%", 0, 40*second))...), judge.Violated,
		"client 50% waited for 40s while a slot was free for it")
	is(t, of(t, "progress", 2, append(h, client("v", 0, 40*second))...), judge.Violated, "slot 2 was free for 40s")
	is(t, of(t, "progress", 2, append(h, client("v", 0, 30*second))...), judge.Kept, "")
}

func TestClientWaitsAgainAfterItsCommand(t *testing.T) {
	stays := client("a", 0, 900*second)
	for name, c := range map[string]struct {
		h    []history.Event
		text string
	}{
		"for a second command":      {[]history.Event{stays, life("a.1", 1, 1, second, 2*second), life("a.2", 1, 2, 600*second, 900*second)}, "free for 9m53s"},
		"in time":                   {[]history.Event{stays, life("a.1", 1, 1, second, 2*second), life("a.2", 1, 2, 37*second, 900*second)}, ""},
		"for ever":                  {[]history.Event{stays, life("a.1", 1, 1, second, 2*second)}, "free for 14m53s"},
		"not while a process lives": {[]history.Event{stays, life("a.1", 1, 1, second, 2*second), life("a.1", 1, 1, 2*second, 880*second)}, ""},
		"not when it has ended":     {[]history.Event{client("a", 0, 6*second), life("a.1", 1, 1, second, 2*second), client("z", 900*second, 0)}, ""},
	} {
		outcome := judge.Kept
		if c.text != "" {
			outcome = judge.Violated
		}
		v := of(t, "progress", 1, c.h...)
		t.Run(name, func(t *testing.T) { is(t, v, outcome, c.text) })
	}
}

// Clients that try once leave moments in which none waits.
func TestClientsThatLeaveWithoutASlotWaitTogether(t *testing.T) {
	for name, c := range map[string]struct {
		slots        int
		every, waits int64
		ran          bool // in the middle of it
		text         string
	}{
		"one after the other":       {slots: 1, every: second, waits: 900 * second / 1000, text: "a slot was free for 49.9"},
		"for a moment now and then": {slots: 1, every: second, waits: 100 * second / 1000},
		"of two slots":              {slots: 2, every: second, waits: 900 * second / 1000, text: "client c30 waited for 31s"},
		"of two, now and then":      {slots: 2, every: second, waits: 100 * second / 1000},
		"of two, and one got one":   {slots: 2, every: second, waits: 900 * second / 1000, ran: true},
	} {
		h := []history.Event{life("z.1", 1, 1, 0, 10)}
		for i := range int64(50) {
			name := fmt.Sprintf("c%d", i)
			h = append(h, client(name, i*c.every, i*c.every+c.waits))
			if c.ran && i == 25 {
				h = append(h, life(name+".1", 2, 1, i*c.every+c.waits, i*c.every+c.waits))
			}
		}
		outcome := judge.Kept
		if c.text != "" {
			outcome = judge.Violated
		}
		v := of(t, "progress", c.slots, append(h, fault(history.End, "", 900*second, 900*second))...)
		t.Run(name, func(t *testing.T) { is(t, v, outcome, c.text) })
	}
}

// What was denied for too long stays so when the clients have left, or enough slots are free.
func TestWaitThatWasTooLongStaysSo(t *testing.T) {
	is(t, of(t, "progress", 1, client("a", 0, 40*second), client("b", 899*second, 900*second)), judge.Violated, "free for 41s")
}

func TestSlotsThatWereNotToldAreTakenInTheOrderThatBlamesLeast(t *testing.T) {
	waits := []history.Event{client("a", 0, 90*second), client("b", 0, 90*second), client("c", 0, 90*second)}
	v := of(t, "progress", 2, append(waits, life("d.1", 0, 0, 20*second, 90*second), life("e.1", 0, 0, 40*second, 90*second))...)
	is(t, v, judge.Violated, "a slot was free for 40s")
	if !strings.Contains(v.Note, "not told apart: 0 of 2 commands were told their slot") {
		t.Errorf("%+v", v)
	}
	v = of(t, "progress", 2, append(waits, life("d.1", 0, 0, 0, 28*second), life("e.1", 0, 0, 0, 90*second),
		life("d.2", 0, 0, 57*second, 58*second), life("d.3", 0, 0, 87*second, 90*second))...)
	is(t, v, judge.Kept, "")
	// Of three on two slots one ends: none is free.
	is(t, of(t, "progress", 2, append(waits, life("d.1", 0, 0, 0, 90*second), life("e.1", 0, 0, 0, 90*second),
		life("f.1", 0, 0, 0, 10*second))...), judge.Unknown, "")
}

// A campaign ends with TERM to all clients.
func TestNothingHasToBeTakenAtTheEnd(t *testing.T) {
	h := []history.Event{client("a", 0, 60*second), life("b.1", 1, 1, 0, 10*second)}
	is(t, of(t, "progress", 1, h...), judge.Violated, "free for 50s")
	is(t, of(t, "progress", 1, append(h, fault(history.End, "", 20*second, 60*second))...), judge.Kept, "")
}

func TestNoClientThatWaitsIsNoVerdict(t *testing.T) {
	is(t, of(t, "progress", 1, client("a", 0, 90*second), fault("cut", "a", 0, 90*second)), judge.Unknown, "")
	is(t, of(t, "progress", 1, client("a", 1, 9), life("a.1", 1, 1, 1, 9)), judge.Unknown, "")
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

// did is a life whose command was to end with status 7.
func did(run string, worked bool, at, until int64) history.Event {
	l := life(run, 1, 1, at, until)
	l.Status, l.Worked = 7, worked
	return l
}

// ended is a client with its status, from the beginning.
func ended(name string, status int, until int64) history.Event {
	c := client(name, 0, until)
	c.Status = status
	return c
}

func TestStatusOfACommandIsPassedOn(t *testing.T) {
	worked, broken, other := did("a.1", true, second, 2*second), did("a.1", false, second, 2*second), ended("b", 7, 2*second)
	other.At, other.Until = 10*second, 12*second
	passed := []history.Event{other, did("b.1", true, 11*second, 12*second)}
	zero := worked
	zero.Status = 0
	for name, c := range map[string]struct {
		h    []history.Event
		text string
	}{
		"passed on":                    {[]history.Event{worked, ended("a", 7, 2*second)}, ""},
		"lost":                         {[]history.Event{worked, ended("a", 0, 2*second)}, "ended with status 0, and not with 7"},
		"of a chain beside it":         {[]history.Event{worked, life("a.1", 1, 1, 2*second, 3*second), ended("a", 1, 2*second)}, "ended with status 1"},
		"0 became another":             {[]history.Event{zero, ended("a", 1, 2*second)}, "ended with status 1, and not with 0"},
		"after a fault":                {[]history.Event{worked, ended("a", 1, 2*second), fault("cut", "a", 0, 1)}, ""},
		"after a fault of all":         {[]history.Event{worked, ended("a", 1, 2*second), fault("broker-kill", "", 0, 1)}, ""},
		"of the end":                   {[]history.Event{worked, ended("a", 143, 2*second), fault(history.End, "", 2*second, 2*second)}, ""},
		"after another's fault":        {[]history.Event{worked, ended("a", 1, 2*second), fault("cut", "b", 0, 1)}, "ended with status 1"},
		"before a fault":               {[]history.Event{worked, ended("a", 1, 2*second), fault("cut", "a", 3*second, 3*second)}, "ended with status 1"},
		"of one of several":            {[]history.Event{worked, did("a.2", true, 3*second, 4*second), ended("a", 1, 4*second)}, ""},
		"still there":                  {[]history.Event{worked, client("a", 0, 0)}, ""},
		"broken off":                   {[]history.Event{broken, ended("a", 7, 2*second)}, "ended before its work was done"},
		"... by a client that is lost": {[]history.Event{broken}, "ended before its work was done"},
		"... by one that is there":     {[]history.Event{broken, client("a", 0, 0)}, "ended before its work was done"},
		"... of several":               {[]history.Event{did("a.2", true, 0, second), broken, ended("a", 7, 4*second)}, "ended before its work was done"},
		"... in a fault":               {[]history.Event{broken, ended("a", 1, 2*second), fault("cut", "a", 0, 1)}, ""},
		"... of all":                   {[]history.Event{broken, ended("a", 1, 2*second), fault("broker-kill", "", 0, 1)}, ""},
		"... at the end":               {[]history.Event{broken, ended("a", 143, 2*second), fault(history.End, "", 2*second+1, 3*second)}, ""},
		"... by another's fault":       {[]history.Event{broken, ended("a", 1, 2*second), fault("cut", "b", 0, 1)}, "ended before its work was done"},
		"... before a fault":           {[]history.Event{broken, ended("a", 1, 2*second), fault("cut", "a", 4*second, 5*second)}, "ended before its work was done"},
		"... with the history":         {[]history.Event{did("c.1", false, second, 12*second)}, ""},
	} {
		outcome := judge.Kept
		if c.text != "" {
			outcome = judge.Violated
		}
		v := of(t, "statuses", 1, append(c.h, passed...)...)
		t.Run(name, func(t *testing.T) { is(t, v, outcome, c.text) })
	}
}

// A lease may run out long after the fault, and not for ever.
func TestFaultExcusesTheEndOfACommandForAsLongAsProgress(t *testing.T) {
	h := history.History{did("a.1", false, 40*second, 50*second), ended("a", 1, 50*second), fault("cut", "a", 0, 9*second)}
	for progress, want := range map[time.Duration]judge.Outcome{30 * time.Second: judge.Violated, 31 * time.Second: judge.Unknown} {
		if v := judge.Judge(h, judge.Bounds{Progress: progress}, "statuses")[0]; v.Outcome != want {
			t.Errorf("%s: %+v", progress, v)
		}
	}
}

func TestStatusThatIsNotToldIsNoVerdict(t *testing.T) {
	for name, h := range map[string][]history.Event{
		"not told": {life("a.1", 1, 1, 0, second), ended("a", 1, second)},
		"several":  {did("a.1", true, 0, second), did("a.2", true, 2*second, 3*second), ended("a", 7, 3*second)},
		"struck":   {did("a.1", true, 0, second), ended("a", 7, second), fault("stop", "a", 0, 1)},
	} {
		v := of(t, "statuses", 1, h...)
		if is(t, v, judge.Unknown, ""); !strings.Contains(v.Note, "no client ran one command") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

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

func TestFaultOfANodeExcusesAll(t *testing.T) {
	is(t, of(t, "statuses", 1, did("a.1", false, second, 5*second), ended("a", 75, 5*second), did("b.1", true, 6*second, 7*second),
		ended("b", 7, 8*second), fault("broker-kill", "n1", 3*second, 4*second)), judge.Unknown, "")
}

func TestOneCommandIsNoVerdict(t *testing.T) {
	for _, name := range []string{"overlap", "permits"} {
		is(t, of(t, name, 1, life("a.1", 1, 1, 0, second)), judge.Unknown, "")
	}
}

// Each of them comes when the one before has given up.
func TestClientsThatGiveUpAtOnceWaitTogether(t *testing.T) {
	h := []history.Event{life("z.1", 1, 1, 0, second/10)}
	for i := range int64(500) {
		h = append(h, client(fmt.Sprintf("c%d", i), i*second/5, i*second/5+second/50))
	}
	is(t, of(t, "progress", 1, h...), judge.Violated, "a slot was free for")
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
