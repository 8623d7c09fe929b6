package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/prover/history"
	"berth/prover/judge"
)

func TestSlotThatDoesNotExistIsNoneOfThoseThatAreFree(t *testing.T) {
	is(t, of(t, "progress", 2, client("a", 0, 90*second), client("b", 0, 90*second), life("c.1", 1, 1, 0, 90*second),
		life("d.1", 3, 1, 0, 90*second)), judge.Violated, "slot 2 was free for 1m30s")
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

// Each of them comes when the one before has given up.
func TestClientsThatGiveUpAtOnceWaitTogether(t *testing.T) {
	h := []history.Event{life("z.1", 1, 1, 0, second/10)}
	for i := range int64(500) {
		h = append(h, client(fmt.Sprintf("c%d", i), i*second/5, i*second/5+second/50))
	}
	is(t, of(t, "progress", 1, h...), judge.Violated, "a slot was free for")
}
