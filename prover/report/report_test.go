package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/report"
	"berth/test/page"
)

//go:generate go test -run TestTextTellsVerdictsAndWindows . -args -update

const second = int64(time.Second)

// example is a report with one of everything.
func example() report.Report {
	first := history.Event{Kind: history.Life, Client: "c1", Run: "c1.1", PID: 4711, Slot: 1, Term: 7,
		At: second, Until: 6 * second}
	fork := first
	fork.PID, fork.At, fork.Until = 4712, 6*second, 8*second
	other := history.Event{Kind: history.Life, Client: "c2", Run: "c2.1", PID: 4720, Slot: 1, Term: 8,
		At: 7 * second, Until: 9 * second}
	return report.Report{
		Command: "berth-prove run --adapter 'flock {lock} {witness}' --broker amqp://me:secret@broker --faults kill,reset",
		Seed:    4711,
		Began:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		History: history.History{
			{Kind: history.Lock, Lock: "p17", Slots: 1, Faults: []string{"cut", "kill", "reset"}},
			{Kind: history.Client, Client: "c1", Until: 5 * second, Status: 137},
			{Kind: history.Client, Client: "c2"},
			other, fork, first,
			{Kind: history.Leftover, Client: "c1", PID: 4712, At: 9 * second},
			{Kind: history.Update, Run: "c1.1", At: second, Until: 6 * second, Read: 17, Wrote: 42},
			{Kind: history.Fault, Fault: "kill", Target: "c1", At: 5 * second, Until: 5 * second},
			{Kind: history.Fault, Fault: "reset", Target: "c1", At: 9 * second, Until: 10 * second},
			{Kind: history.Fault, Fault: history.End, At: 9*second + second/2, Until: 10 * second},
		},
		Verdicts: []judge.Verdict{
			{Checker: "overlap", Outcome: judge.Violated, Violations: []judge.Violation{{At: 7 * second, Until: 8 * second,
				What: "1s of overlap: c1.1; c2.1", Lives: []history.Event{first, fork, other}}}},
			{Checker: "terms", Outcome: judge.Kept, Note: "2 commands",
				Limits: []judge.Violation{{At: 8 * second, What: "limit: what a fault allows"}}},
			{Checker: "orphans", Outcome: judge.Unknown, Note: "no client ended by itself"},
		},
		Windows: judge.Windows{
			"kill":        {judge.Running: 1},
			"reset":       {judge.Other: 1},
			"broker-stop": {judge.Other: 2},
			"cut":         {judge.Waiting: 0, judge.Young: 0, judge.Running: 0, judge.Other: 0},
		},
	}
}

func text(t *testing.T, r report.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := report.Text(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// written returns what is in the file of a report.
func written(t *testing.T, name string, r report.Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := report.Write(path, r); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestTextTellsVerdictsAndWindows(t *testing.T) {
	page.WantFile(t, "testdata/report.txt", text(t, example()))
}

func TestFaultThatFailedIsTold(t *testing.T) {
	r := example()
	r.History = append(r.History, history.Event{Kind: history.Fault, Fault: "resize", At: second, Until: 2 * second, Failed: "it left\na process"})
	if shown := text(t, r); !strings.Contains(shown, "resize at 1.000000 s: it left\ufffda process\n") {
		t.Errorf("%s", shown)
	}
	if chart := charted(t, written(t, "r.html", r)); !strings.Contains(strings.Join(chart.Notes, "|"), "resize: it left") {
		t.Errorf("%q", chart.Notes)
	}
}

func TestTextShowsTheFirstViolationsOfMany(t *testing.T) {
	r := example()
	for range 49 {
		r.Verdicts[0].Violations = append(r.Verdicts[0].Violations, judge.Violation{What: "again"})
	}
	for _, shown := range []string{text(t, r), written(t, "r.html", r)} {
		if n := strings.Count(shown, "> again</li>") + strings.Count(shown, "  again\n"); n != 19 {
			t.Errorf("%d of 49 violations are shown", n)
		}
		if !strings.Contains(shown, "... and 30 more") {
			t.Errorf("the rest is not counted in %s", shown)
		}
	}
}

func TestTextSaysThatZeroHitsAreNoVerdict(t *testing.T) {
	const caveat = "Zero hits is no verdict"
	r := example()
	r.History = r.History[:6] // without faults
	r.Windows = nil
	if !strings.Contains(text(t, r), caveat) {
		t.Error("a run without faults has a verdict")
	}
	r.Windows = judge.Windows{"kill": {judge.Waiting: 1, judge.Young: 1, judge.Running: 1}}
	if shown := text(t, r); strings.Contains(shown, caveat) {
		t.Errorf("each phase was hit: %s", shown)
	}
	r.Windows["kill"][judge.Young] = 0
	if !strings.Contains(text(t, r), caveat) {
		t.Error("a phase that was not hit has a verdict")
	}
}

func TestTextOfAHistoryWithoutARunHasNoSeed(t *testing.T) {
	shown := text(t, report.Report{Command: "berth-prove judge h.jsonl"})
	if strings.Contains(shown, "seed") || strings.Contains(shown, "began") {
		t.Error(shown)
	}
}

func TestTextControlsNoTerminal(t *testing.T) {
	r := example()
	hostile := "\x1b]0;owned\a\n\u202e"
	r.Command, r.History[0].Lock, r.Verdicts[0].Violations[0].What = hostile, hostile, hostile
	r.Verdicts[1].Note, r.Windows = hostile, judge.Windows{hostile: {}}
	if shown := text(t, r); strings.ContainsAny(shown, "\x1b\a\u202e") {
		t.Errorf("%q", shown)
	}
}

func TestReportsHaveNoPasswords(t *testing.T) {
	r := example()
	r.Command = "x --broker amqp://me:se@cret@one/a --other http://you:hunter2@two --plain amqp://three:5672/b@c"
	for _, shown := range []string{text(t, r), written(t, "r.json", r), written(t, "r.html", r)} {
		if strings.Contains(shown, "cret") || strings.Contains(shown, "hunter2") {
			t.Errorf("a password is in %.300s", shown)
		}
		if !strings.Contains(shown, "amqp://me:xxxxx@one/a") || !strings.Contains(shown, "three:5672/b@c") {
			t.Errorf("more than passwords is gone from %.300s", shown)
		}
	}
}

func TestJSONHasAllOfIt(t *testing.T) {
	r := example()
	var read report.Report
	if err := json.Unmarshal([]byte(written(t, "r.json", r)), &read); err != nil {
		t.Fatal(err)
	}
	r.Command = strings.Replace(r.Command, "secret", "xxxxx", 1)
	if !reflect.DeepEqual(read, r) {
		t.Errorf("wrote %+v, read %+v", r, read)
	}
}

func TestWriteReplacesAFileAtOnceOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	impossible := example()
	impossible.Began = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) // which JSON cannot have
	if err := report.Write(path, impossible); err == nil {
		t.Error("no error")
	}
	if content, _ := os.ReadFile(path); string(content) != "before" {
		t.Errorf("a report that failed left %q", content)
	}
	if err := report.Write(path, example()); err != nil {
		t.Error(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%v", files)
	}
}

func TestOtherNamesAreRefused(t *testing.T) {
	for _, path := range []string{"report", "report.txt", "html"} {
		if report.Writable(path) == nil || report.Write(filepath.Join(t.TempDir(), path), example()) == nil {
			t.Errorf("%s is written", path)
		}
	}
	if err := report.Writable("a.b/out.html"); err != nil {
		t.Error(err)
	}
}

func TestPageShowsLimits(t *testing.T) {
	html := written(t, "r.html", example())
	if !strings.Contains(html, "1 limit. 2 commands") || !strings.Contains(html, "limit: what a fault allows</li>") {
		t.Error("it does not")
	}
}

// A node of the broker is no client.
func TestFaultOfANodeHasHitSomething(t *testing.T) {
	r := example()
	r.History = append(r.History, history.Event{Kind: history.Fault, Fault: "node-cut", Target: "n2", At: second, Until: second})
	r.Windows = judge.Windows{"node-cut": {judge.Other: 1}}
	if shown := text(t, r); strings.Contains(shown, "struck nothing") {
		t.Error(shown)
	}
}

func TestPageNeedsNothingFromOutside(t *testing.T) {
	html := written(t, "r.html", example())
	for _, reference := range []string{"http://", "https://", "src=", "@import", "url(", "<iframe", "fetch("} {
		if strings.Contains(html, reference) {
			t.Errorf("the page has %s", reference)
		}
	}
}

func TestPageIsWellFormed(t *testing.T) {
	html := written(t, "r.html", example())
	html = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</`).ReplaceAllString(html, "<$1></")
	var open []string
	for _, tag := range regexp.MustCompile(`<(/?)([a-z0-9]+)[^<>]*>`).FindAllStringSubmatch(html, -1) {
		switch last := len(open) - 1; {
		case tag[2] == "meta" || tag[2] == "link":
		case tag[1] == "":
			open = append(open, tag[2])
		case last < 0 || open[last] != tag[2]:
			t.Fatalf("</%s> closes one of %v", tag[2], open)
		default:
			open = open[:last]
		}
	}
	if len(open) > 0 {
		t.Errorf("%v are left open", open)
	}
	if strings.Count(html, "<")-1 != len(regexp.MustCompile(`</?[a-z0-9]+[^<>]*>`).FindAllString(html, -1)) {
		t.Error("not every < begins a tag")
	}
}

func TestPageEscapesHostileNames(t *testing.T) {
	r := example()
	hostile := `</script><img src=x onerror="alert('1')">` + "`${1}`<!--"
	r.Command, r.History[0].Lock = hostile, hostile
	r.Windows = judge.Windows{hostile: {judge.Other: 1}}
	for i := range r.Verdicts {
		r.Verdicts[i].Checker, r.Verdicts[i].Note = hostile, hostile
	}
	r.Verdicts[0].Violations[0].What = hostile
	for i := range r.History {
		event := &r.History[i]
		for _, name := range []*string{&event.Client, &event.Run, &event.Fault, &event.Target} {
			if *name != "" {
				*name += hostile
			}
		}
	}
	html := written(t, "r.html", r)
	for _, raw := range []string{"<img", "</script><img", "<!--"} {
		if strings.Contains(html, raw) {
			t.Errorf("the page has %s", raw)
		}
	}
	if strings.Count(html, "</script>") != 2 {
		t.Error("a name ends a script")
	}
	if chart := charted(t, html); !strings.Contains(strings.Join(chart.Notes, ""), hostile) {
		t.Errorf("the notes are %q", chart.Notes)
	}
}

// Somebody opens it after ten minutes of short commands, maybe on a phone.
func TestPageStaysSmallWithManySpans(t *testing.T) {
	r := busy(3000)
	empty := len(written(t, "r.html", report.Report{}))
	size := len(written(t, "r.html", r))
	t.Logf("%d bytes, of which %d are there without a history", size, empty)
	if each := (size - empty) / 3000; each > 160 {
		t.Errorf("%d bytes for each span", each)
	}
}

// busy is a report with so many commands on three slots, as ten clients with faults have them in ten minutes.
func busy(commands int) report.Report {
	r := example()
	r.History = history.History{{Kind: history.Lock, Lock: "workers", Slots: 3}}
	step := 600 * second / int64(commands)
	for i := range int64(commands) {
		client := fmt.Sprintf("c%d", i*7%10+1)
		r.History = append(r.History, history.Event{Kind: history.Life, Client: client, Run: fmt.Sprintf("%s.%d", client, i),
			PID: int(1000 + i), Slot: int(i%3) + 1, Term: uint64(i + 1), At: i * step, Until: i*step + step*2 + step*(i*i%9)/10})
		r.History = append(r.History, history.Event{Kind: history.Update, Run: r.History[len(r.History)-1].Run, At: i * step,
			Until: i*step + step, Read: uint64(i), Wrote: uint64(i + 1)})
		if i%15 == 4 {
			fault := []string{"kill", "stop", "reset", "broker-stop"}[i/15%4]
			event := history.Event{Kind: history.Fault, Fault: fault, Target: client, At: i*step + step, Until: i*step + step}
			if fault == "broker-stop" {
				event.Target, event.Until = "", event.At+8*second
			}
			r.History = append(r.History, event)
		}
	}
	for i := range 10 {
		r.History = append(r.History, history.Event{Kind: history.Client, Client: fmt.Sprintf("c%d", i+1),
			Until: int64(i%2) * 590 * second})
	}
	r.Windows = judge.Hits(r.History)
	r.Verdicts = judge.Judge(r.History, judge.Bounds{})
	return r
}

// charted is the chart that a page has.
func charted(t *testing.T, html string) (chart struct {
	Span  int64
	Notes []string
	Lanes []struct {
		Name string
		Rows int
		Bars [][6]int64
	}
}) {
	t.Helper()
	_, data, _ := strings.Cut(html, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	if err := json.Unmarshal([]byte(data), &chart); err != nil {
		t.Fatal(err)
	}
	return chart
}

func TestChartHasALaneForEachSlotAndClient(t *testing.T) {
	var names []string
	for _, lane := range charted(t, written(t, "r.html", busy(100))).Lanes {
		names = append(names, lane.Name)
	}
	want := "faults slot 1 slot 2 slot 3 c1 c2 c3 c4 c5 c6 c7 c8 c9 c10"
	if got := strings.TrimPrefix(strings.Join(names, " "), "violations "); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestChartDrawsWhatIsInTheHistory(t *testing.T) {
	chart := charted(t, written(t, "r.html", example()))
	var drawn []string
	for _, lane := range chart.Lanes {
		drawn = append(drawn, fmt.Sprintf("%s, %d rows", lane.Name, lane.Rows))
		for _, bar := range lane.Bars {
			drawn = append(drawn, fmt.Sprintf("  kind %d row %d %.1f-%.1f slot %d: %s", bar[0], bar[1], float64(bar[2])/1e6,
				float64(bar[3])/1e6, bar[5], chart.Notes[bar[4]]))
		}
	}
	const want = `violations, 1 rows
  kind 5 row 0 7.0-8.0 slot 0: overlap: 1s of overlap: c1.1; c2.1
faults, 2 rows
  kind 4 row 0 5.0-5.0 slot 0: kill of c1
  kind 4 row 0 9.0-10.0 slot 0: reset of c1
  kind 4 row 1 9.5-10.0 slot 0: end
slot 1, 2 rows
  kind 2 row 0 1.0-8.0 slot 1: c1.1, slot 1, term 7, 2 processes, pid 4711
  kind 2 row 1 7.0-9.0 slot 1: c2.1, slot 1, term 8, pid 4720
  kind 5 row -1 7.0-8.0 slot 0: overlap: 1s of overlap: c1.1; c2.1
c1, 1 rows
  kind 0 row -1 0.0-5.0 slot 0: c1: ended with status 137
  kind 2 row 0 1.0-8.0 slot 1: c1.1, slot 1, term 7, 2 processes, pid 4711
  kind 3 row -1 9.0-9.0 slot 0: left over of c1: process 4712
  kind 4 row -1 5.0-5.0 slot 0: kill of c1
  kind 4 row -1 9.0-10.0 slot 0: reset of c1
  kind 5 row -1 7.0-8.0 slot 0: overlap: 1s of overlap: c1.1; c2.1
c2, 1 rows
  kind 1 row -1 0.0-10.0 slot 0: c2: its end is not known
  kind 2 row 0 7.0-9.0 slot 1: c2.1, slot 1, term 8, pid 4720
  kind 5 row -1 7.0-8.0 slot 0: overlap: 1s of overlap: c1.1; c2.1`
	if got := strings.Join(drawn, "\n"); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

// A campaign of ten minutes has hundreds, each of which runs one command.
func TestClientsThatFollowEachOtherShareALane(t *testing.T) {
	r := report.Report{History: history.History{{Kind: history.Lock, Slots: 1}}}
	for i := range int64(100) {
		r.History = append(r.History, history.Event{Kind: history.Client, Client: fmt.Sprintf("c%d", i+1),
			At: i/2*second + 1, Until: (i/2 + 1) * second})
	}
	chart := charted(t, written(t, "r.html", r))
	if len(chart.Lanes) != 3 || chart.Lanes[2].Name != "clients 2" || len(chart.Lanes[2].Bars) != 50 {
		t.Errorf("%d lanes: %+v", len(chart.Lanes), chart.Lanes)
	}
}

func TestChartShowsCommandsWithoutASlotAsUnknown(t *testing.T) {
	r := example()
	r.History[0].Slots = 2
	for i := range r.History {
		r.History[i].Slot = 0
	}
	for _, lane := range charted(t, written(t, "r.html", r)).Lanes {
		if lane.Name == "no slot told" && lane.Rows == 2 && lane.Bars[0][5] == 0 {
			return
		}
	}
	t.Error("no lane has them")
}

// Clocks of a host that has been up for months, and nothing at all.
func TestChartStartsWithTheHistory(t *testing.T) {
	r := report.Report{History: history.History{
		{Kind: history.Lock, Slots: 1},
		{Kind: history.Client, Client: "c", At: 9e15, Until: 9e15 + second},
	}}
	if chart := charted(t, written(t, "r.html", r)); chart.Span != 1e6 || chart.Lanes[1].Bars[0][2] != 0 {
		t.Errorf("%+v", chart)
	}
	if chart := charted(t, written(t, "r.html", report.Report{})); chart.Span != 1 || len(chart.Lanes) != 1 {
		t.Errorf("%+v", chart)
	}
}
