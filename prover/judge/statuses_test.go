package judge_test

import (
	"strings"
	"testing"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
)

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

func TestFaultOfANodeExcusesAll(t *testing.T) {
	is(t, of(t, "statuses", 1, did("a.1", false, second, 5*second), ended("a", 75, 5*second), did("b.1", true, 6*second, 7*second),
		ended("b", 7, 8*second), fault("broker-kill", "n1", 3*second, 4*second)), judge.Unknown, "")
}
