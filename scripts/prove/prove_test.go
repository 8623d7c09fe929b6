package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/prover/adapter"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/judge"
	"berth/test/broken"
)

var onBoth = []broker{{"3.10", "start"}, {"4.3", "start:4.3"}}

func TestEachRunIsAnotherOne(t *testing.T) {
	for want, cells := range map[int][]*cell{10: few("bin", onBoth), 60: all("bin", onBoth)} {
		names, behave := map[string]bool{}, map[string]int{}
		for _, c := range cells {
			names[c.name] = true
			behave[value(c.args, "--commands")]++
			for _, flag := range []string{"--adapter", "--setup"} {
				if line := value(c.args, flag); line != "" {
					if _, err := adapter.Parse(line, adapter.Lock, adapter.Broker, adapter.Slots, adapter.Witness); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if len(names) != want || len(behave) != 3 || slices.Min([]int{behave["plain"], behave["stubborn"], behave["forking"]}) < want/3 {
			t.Errorf("%d cells, want %d; commands behave so: %v", len(names), want, behave)
		}
	}
}

func TestMutantsAreTriedWithFaultsThatThereAre(t *testing.T) {
	cells := mutants("bin", onBoth[:1])
	if len(cells) < 12 {
		t.Errorf("%d", len(cells))
	}
	for _, c := range cells {
		if faults, err := fault.Named(value(c.args, "--faults"), fault.Broker); err != nil || len(faults) == 0 {
			t.Errorf("%s: %v, %v", c.name, faults, err)
		}
		if _, err := c.broken.In("../.."); err != nil || !slices.Contains(c.args, "--until-violated") {
			t.Errorf("%s: %v, %v", c.name, err, c.args)
		}
	}
}

// value is that of the last flag of that name, "" if there is none.
func value(args []string, flag string) (last string) {
	for i, arg := range args {
		if arg == flag {
			last = args[i+1]
		}
	}
	return last
}

// prover is a berth-prove that does what a script does, once it has noted the call, and has written a report.
func prover(t *testing.T, script string) *cell {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	const report = `echo call >>calls
for word; do case $word in *.json)
	echo '{"seed": 7, "verdicts": [{"checker": "overlap", "outcome": "kept"}]}' >"$word"
esac; done
`
	write(t, "berth-prove", "#!/bin/sh\n"+report+script)
	write(t, "berth", "one")
	return &cell{name: "a-cell", bin: dir, args: []string{"run"}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func calls(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("calls")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "call")
}

func TestWhatHasEndedIsNotRunAgain(t *testing.T) {
	c := prover(t, "exit 0")
	again := func(want int, resume bool) {
		t.Helper()
		next := &cell{name: c.name, bin: c.bin, args: c.args}
		if err := next.prove(t.Context(), resume); err != nil || next.status() != 0 || next.report.Seed != 7 || calls(t) != want {
			t.Errorf("%v, status %d, seed %d, %d calls, want %d", err, next.status(), next.report.Seed, calls(t), want)
		}
	}
	again(1, true)
	again(1, true)
	again(2, false)
	c.args = append(c.args, "--time", "1m")
	again(3, true)
	again(3, true)
	write(t, "berth", "another one")
	again(4, true)
	t.Setenv("PROVE_SEED", "7")
	again(5, true)
}

func TestWhatWasInterruptedIsRunAgain(t *testing.T) {
	c := prover(t, "trap 'exit 2' INT; touch began; while :; do sleep 0.01; done")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for over := time.Now().Add(20 * time.Second); time.Now().Before(over); time.Sleep(time.Millisecond) {
			if _, err := os.Stat("began"); err == nil {
				break
			}
		}
		cancel()
	}()
	if err := c.prove(ctx, true); err != nil || c.ended || c.status() != 2 {
		t.Errorf("%v, %v, status %d", err, c.ended, c.status())
	}
	write(t, "berth-prove.new", "#!/bin/sh\nexit 2\n")
	if err := os.Rename("berth-prove.new", "berth-prove"); err != nil {
		t.Fatal(err)
	}
	if err := c.prove(t.Context(), true); err != nil || c.ended {
		t.Errorf("without a verdict: %v, %v", err, c.ended)
	}
}

func TestBrokenBerthHasToBeFoundOut(t *testing.T) {
	c := func(ended bool, b *broken.Berth, outcome judge.Outcome) *cell {
		v := judge.Verdict{Checker: "overlap", Outcome: outcome}
		if outcome == judge.Violated {
			v.Violations = []judge.Violation{{At: 3e9}, {At: 2e9}}
		}
		one := &cell{name: "dist/prove/a-cell", ended: ended, broken: b}
		one.report.Verdicts = []judge.Verdict{v}
		one.report.Windows = judge.Windows{"kill": {judge.Running: 2}, "broker-kill": {judge.Other: 1}}
		one.report.History = history.History{{Kind: history.Life, Run: "r", At: 1, Until: 2}}
		return one
	}
	for _, want := range []struct {
		of     *cell
		status int
		row    string
	}{
		{c(true, nil, judge.Kept), 0, "| a-cell | 0 | 1 | 0 | 2 of 4 | overlap kept |"},
		{c(true, nil, judge.Violated), 1, "| overlap violated (2) |"},
		{c(true, &broken.Berth{}, judge.Violated), 0, "| found out after 2s by overlap: "},
		{c(true, &broken.Berth{}, judge.Kept), 1, "| not found out: "},
		{c(false, nil, judge.Kept), 2, "| not run to its end |"},
	} {
		if text := page([]*cell{want.of}); want.of.status() != want.status || !strings.Contains(text, want.row) {
			t.Errorf("status %d, want %d; no %q in:\n%s", want.of.status(), want.status, want.row, text)
		}
	}
}
