package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/test/bench/report"
)

// judged judges a journal of lines such as "1 begin 7", for process and message, each a
// millisecond after the one before; processes 1 and 2 are those of one event, at 0.
func judged(t *testing.T, kind, text string) verdict {
	t.Helper()
	j, err := openJournal(t.TempDir() + "/journal")
	if err != nil {
		t.Fatal(err)
	}
	defer j.file.Close()
	for i, l := range strings.Split(text, ", ") {
		if err := j.add("host " + l + " 0"); err != nil {
			t.Fatal(err)
		}
		j.lines[i].at = time.Duration(i) * time.Millisecond
	}
	return judge(j.lines, 3, []event{{kind: kind, old: 1, next: 2}})
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		kind, journal string
		want          verdict
		of            outcome
	}{
		"nothing": {handover, "1 begin 1, 1 done 1, 1 begin 2, 1 done 2, 2 begin 3, 2 done 3",
			verdict{}, outcome{events: 1, pauses: []time.Duration{ms}}},
		"a lost message": {kill, "1 begin 1, 1 done 1, 1 begin 2, 2 begin 3, 2 done 3",
			verdict{lost: 1}, outcome{events: 1, pauses: []time.Duration{3 * ms}}},
		"two at work": {handover, "1 begin 1, 1 done 1, 2 begin 3, 1 begin 2, 2 done 3, 1 done 2",
			verdict{late: 1}, outcome{events: 1, both: 1, longest: 3 * ms, pauses: []time.Duration{0}}},
		"two at one message": {partition,
			"1 begin 1, 2 begin 1, 1 done 1, 2 done 1, 2 begin 2, 2 done 2, 2 begin 3, 2 done 3",
			verdict{}, outcome{events: 1, both: 1, longest: ms, twice: 1, again: 1, pauses: []time.Duration{ms}}},
		"again": {kill, "1 begin 1, 1 done 1, 2 begin 1, 2 done 1, 2 begin 2, 2 done 2, 2 begin 3, 2 done 3",
			verdict{}, outcome{events: 1, again: 1, pauses: []time.Duration{2 * ms}}},
		"no order": {handover, "1 begin 2, 1 done 2, 1 begin 1, 1 done 1, 2 begin 3, 2 done 3",
			verdict{disorder: 1, late: 1}, outcome{events: 1, pauses: []time.Duration{ms}}},
		"a stranger": {handover, "1 begin 1, 1 done 1, 2 begin 2, 2 done 2, 3 begin 3, 3 done 3",
			verdict{strangers: 1}, outcome{events: 1, pauses: []time.Duration{ms}}},
	} {
		got := judged(t, c.kind, c.journal)
		of := got.get(c.kind)
		got.of = nil
		if !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(of, c.of) {
			t.Errorf("%s: %+v %+v", name, got, of)
		}
	}
}

func TestPageHasAPlaceForTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/single-consumer.md")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(copied, page, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteText(section, copied, table("4.3", "none", small, 0, nil)); err != nil {
		t.Error(err)
	}
}
