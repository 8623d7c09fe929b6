package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/report"
)

// reported writes the report of a run with seed 1, of which the fourth client works for 18 s, and returns its path. In it
// c4 has the lock from 0.6 s on, c5 waits, and each of these stops strikes.
func reported(t *testing.T, adapter string, stops ...history.Event) string {
	t.Helper()
	const ms = int64(time.Millisecond)
	h := history.History{
		{Kind: history.Lock, Slots: 1}, {Kind: history.Client, Client: "c5"}, {Kind: history.Client, Client: "c4"},
		{Kind: history.Life, Client: "c4", Run: "c4.1", At: 600 * ms, Until: 9000 * ms},
		{Kind: history.Life, Client: "c5", Run: "c5.1", At: 6200 * ms, Until: 7000 * ms},
	}
	for _, e := range stops {
		e.Kind, e.Fault, e.At, e.Until, e.Lasts = history.Fault, "stop", e.At*ms, e.Until*ms, (e.Until-e.At)*ms
		h = append(h, e)
	}
	path := filepath.Join(t.TempDir(), "out.json")
	if err := report.Write(path, report.Report{History: h, Verdicts: judge.Judge(h, judge.Bounds{}), Flags: map[string][]string{
		"adapter": {adapter}, "seed": {"1"}, "faults": {"stop"}, "time": {"9s"}, "progress": {"5s"}, "clients": {"2"},
		"broker": {"none"},
	}}); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the report in a file.
func read(t *testing.T, path string) (r report.Report) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestViolationIsFoundAgainWithOneFaultOfSeveral(t *testing.T) {
	t.Parallel()
	lock, err := filepath.Abs("example/client.py")
	if err != nil {
		t.Fatal(err)
	}
	out := reported(t, "python3 "+lock+" {lock} {witness}", history.Event{Target: "c5", At: 1000, Until: 1200},
		history.Event{Target: "c4", At: 1500, Until: 1900}, history.Event{Target: "c4", At: 4000, Until: 10000},
		history.Event{Target: "c5", At: 11000, Until: 12000})
	p := proves(t, "shrink", out, "--tries", "1")
	p.start(t)
	small := strings.TrimSuffix(out, ".json") + "-small.json"
	p.ends(t, statusViolated, "violated  overlap", "berth-prove replay "+small)
	if left := len(read(t, small).History.Faults()); left < 1 || left > 2 {
		t.Errorf("%d faults are left", left)
	}
	again := proves(t, "replay", small)
	again.start(t)
	again.ends(t, statusViolated, "violated  overlap")
}

func TestViolationThatNeedsNoFaultShrinksToClientsAlone(t *testing.T) {
	t.Parallel()
	out := reported(t, "{witness}", history.Event{Target: "c4", At: 5000, Until: 5100})
	p := proves(t, "shrink", "--clients", "4", out)
	p.start(t)
	p.ends(t, statusViolated)
	r := read(t, strings.TrimSuffix(out, ".json")+"-small.json")
	if faults := r.History.Faults(); len(faults) > 0 || !slices.Equal(r.Flags["clients"], []string{"2"}) {
		t.Errorf("left: %v, %s clients", faults, r.Flags["clients"])
	}
}

func TestViolationThatDoesNotComeAgainIsNoVerdict(t *testing.T) {
	t.Parallel()
	p := proves(t, "shrink", reported(t, "flock {lock} {witness}"), "--tries", "1")
	p.start(t)
	p.ends(t, statusUnknown, "overlap is not violated again")
}

func TestInterruptedSearchReportsTheSmallestSoFar(t *testing.T) {
	t.Parallel()
	out := reported(t, "{witness}", history.Event{Target: "c4", At: 5000, Until: 5100})
	p := proves(t, "shrink", out, "--clients", "12") // of which it leaves out one after the other
	p.Stdout = &interrupting{prove: p, after: "overlap violated\n"}
	p.start(t)
	p.ends(t, statusViolated, "interrupt", "violated  overlap")
}

// interrupting interrupts the program once it has printed the text.
type interrupting struct {
	prove *prove
	after string
}

func (i *interrupting) Write(text []byte) (int, error) {
	if strings.Contains(string(text), i.after) {
		_ = i.prove.Process.Signal(syscall.SIGINT)
	}
	return i.prove.out.Write(text)
}

func TestPartOfARunComesAgain(t *testing.T) {
	t.Parallel()
	stops := []history.Event{{Target: "c4", At: 700, Until: 800}, {Target: "c5", At: 1000, Until: 1100},
		{Target: "c4", At: 1300, Until: 1400}, {At: 1500, Until: 1600}, {Target: "c4", At: 4000, Until: 4100}}
	// Each has three seconds for its first command to begin: its time counts from the start.
	for want, flags := range map[string]string{
		"c4 c5 c4 c4": "--until 3900ms",
		"c4 c4":       "--from 1200ms --until 3900ms",
		"c5 c4":       "--only c5,c3 --until 3900ms", // one without a target stays
	} {
		out := reported(t, "flock {lock} {witness}", stops...)
		p := proves(t, append([]string{"replay", out, "--report", out}, strings.Fields(flags)...)...)
		p.start(t)
		p.ends(t, statusUnknown, "one command ran in all")
		got := ""
		r := read(t, out)
		for _, e := range r.History.Faults() {
			got += " " + e.Target
		}
		if strings.TrimSpace(got) != want || !slices.Equal(r.Flags["seed"], []string{"1"}) {
			t.Errorf("%s: struck %s, want %s; %v", flags, got, want, r.Flags)
		}
	}
}

func TestReportThatCannotComeAgainIsNoVerdict(t *testing.T) {
	t.Parallel()
	stop := history.Event{Target: "c4", At: 700, Until: 800}
	good := reported(t, "flock {lock} {witness}", stop)
	empty, page := filepath.Join(t.TempDir(), "empty.json"), filepath.Join(t.TempDir(), "out.html")
	if err := errors.Join(os.WriteFile(empty, []byte("{}"), 0o600), os.WriteFile(page, []byte("<html>"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"name one report":             {"replay"},
		"no such file":                {"replay", "/nonexistent/out.json"},
		"not \"" + empty:              {"replay", empty},
		"in JSON: invalid character":  {"replay", page},
		"give --adapter again":        {"replay", reported(t, "x http://me:secret@broker {witness}", stop)},
		"left from 8s until 7s":       {"replay", good, "--from", "8s", "--until", "7s"},
		"9.6s, of 1: widen --from":    {"replay", good, "--only", "c5"},
		"until 650ms, of 1: widen":    {"replay", good, "--until", "650ms"},
		"has no violation":            {"shrink", good, "--slots", "2", "--progress", "60s"},
		"--tries and --limit must be": {"shrink", good, "--tries", "0"},
		"must be plain, stubborn":     {"shrink", good, "--commands", "lazy"},
		"cannot write a report or":    {"shrink", good, "--history", "/nonexistent/h.jsonl"},
	} {
		p := proves(t, args...)
		p.start(t)
		p.ends(t, statusUnknown, want)
	}
}
