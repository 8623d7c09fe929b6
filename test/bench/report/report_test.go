package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// example is a report with one of everything, in the sections "peers" and "alone".
func example() *Report {
	start := &Measure{Section: "peers", Title: "From exec <to> start", Unit: "ms", Plot: true}
	start.Add("berth", 10, 30)
	start.Add("etcdctl lock", 50)
	start.Of("flock").Text = "never & not"
	idle := &Measure{Section: "peers", Title: "Requests", Unit: "per s", Plot: true, More: true}
	idle.Add("berth", 2)
	idle.Add("etcdctl lock", 0)
	memory := &Measure{Section: "alone", Title: "Memory", Unit: "KiB"}
	memory.Add("berth", 116)
	queues := &Measure{Section: "alone", Title: "Queues", Count: true}
	queues.Add("berth", 2, 3)
	return &Report{
		Date: "2030-01-02", Commit: "0123abc-dirty", Flags: "-n 2", Machine: "2 cores (Abacus)", Load: 0.123,
		Busy: 0.031, Stolen: 0.0125, Versions: []string{"berth 1.2", "etcdctl 3.4"},
		Measures: []*Measure{start, idle, memory, queues},
	}
}

func TestSectionHasTableAndItsOrigin(t *testing.T) {
	text := example().text("peers", "plot.svg")
	for _, line := range []string{
		"measure               unit                    berth  etcdctl lock        flock",
		"From exec <to> start  ms                       20.0   50.0 (2.5x)  never & not",
		"Requests              per s (more is better)   2.00             0",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no line\n%s\nin\n%s", line, text)
		}
	}
	for _, words := range []string{
		`make bench BENCH="-n 2"`, "2030-01-02", "0123abc-dirty", "2 cores (Abacus)", "0.123", "3 %", "1.2 %",
		": plot.svg", "etcdctl 3.4", "in brackets",
	} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
}

func TestGoalIsMetOrMissedOrNotMeasured(t *testing.T) {
	r := example()
	median := func(factor float64, title, program string) []Term { return []Term{{factor, title, program}} }
	r.Goals = []Goal{
		{What: "start", Sum: median(1, "From exec <to> start", "berth"), Bound: median(0.5, "From exec <to> start", "etcdctl lock")},
		{What: "both", Sum: append(median(1, "From exec <to> start", "berth"), Term{Factor: 6}), Bound: []Term{{Factor: 25}}},
		{What: "requests", Least: true, Sum: median(1, "Requests", "berth"), Bound: []Term{{Factor: 2}}},
		{What: "flock", Sum: median(1, "From exec <to> start", "flock"), Bound: []Term{{Factor: 1}}},
		{What: "memory", Sum: median(1, "Memory", "berth"), Bound: []Term{{Factor: 1}}},
	}
	const want = "\ngoal        is          bound        \n" +
		"start     20.0   at most 25.0     met\n" +
		"both      26.0   at most 25.0  missed\n" +
		"requests  2.00  at least 2.00     met\n"
	if got := r.goals("peers"); strings.ReplaceAll(got, " \n", "\n") != strings.ReplaceAll(want, "        \n", "\n") {
		t.Errorf("the goals are\n%s\nnot\n%s", got, want)
	}
	if got := r.goals("alone"); !strings.Contains(got, "memory") || strings.Contains(got, "start") {
		t.Errorf("the goals of another section are\n%s", got)
	}
}

func TestSectionOfOneProgramComparesNothing(t *testing.T) {
	text := example().text("alone", "")
	if !strings.Contains(text, "Memory   KiB     116\nQueues           2.5\n") ||
		strings.Contains(text, "brackets") || strings.Contains(text, "plot") {
		t.Errorf("it is\n%s", text)
	}
}

func TestTextHasEverySection(t *testing.T) {
	text := example().Text()
	for _, words := range []string{"\npeers\n", "50.0 (2.5x)", "\nalone\n", "Memory"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
}

func TestPlotIsXMLAndHasEveryMedian(t *testing.T) {
	picture := example().plot("peers")
	decoder := xml.NewDecoder(strings.NewReader(picture))
	words, dots := "", 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is not XML: %v\n%s", err, picture)
		}
		switch token := token.(type) {
		case xml.CharData:
			words += string(token) + "\n"
		case xml.StartElement:
			if token.Name.Local == "circle" {
				dots++
			}
		}
	}
	for _, want := range []string{
		"From exec <to> start", "20.0", "50.0", "never & not", "flock", "2.00", "0", "per s, more is better",
	} {
		if !strings.Contains(words, want+"\n") {
			t.Errorf("it does not say %q", want)
		}
	}
	if dots != 3 { // a logarithmic axis has no place for the median of 0
		t.Errorf("it has %d dots, not 3", dots)
	}
	if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
		t.Errorf("something stands nowhere:\n%s", picture)
	}
}

func TestAxis(t *testing.T) {
	a := newAxis([]float64{0, 2, 2000}, 100, 400)
	low, middle, high := a.at(2), a.at(63.2), a.at(2000)
	if low <= 100 || high >= 400 || middle < 249 || middle > 251 {
		t.Errorf("2, 63 and 2000 are at %v, %v and %v", low, middle, high)
	}
	if ticks := a.ticks(); len(ticks) != 3 || ticks[0] != 10 || ticks[2] != 1000 {
		t.Errorf("from 2 to 2000 the ticks are %v", ticks)
	}
	for _, narrow := range [][]float64{{5}, {90, 110}, {0.011, 0.012}, nil} {
		if ticks := newAxis(narrow, 0, 1).ticks(); len(ticks) < 1 {
			t.Errorf("an axis for %v has no ticks", narrow)
		}
	}
}

func TestPageKeepsWhatIsAroundTheMarkers(t *testing.T) {
	begin, end := marker("begin", "one"), marker("end", "one")
	other := marker("begin", "two") + "\ntwo\n" + marker("end", "two") + "\n"
	page := "# Title\n\n" + begin + "\nold\n" + end + "\n\n## More\n" + other
	got, err := rewrite(page, "one", "new\n")
	if want := "# Title\n\n" + begin + "\nnew\n" + end + "\n\n## More\n" + other; err != nil || got != want {
		t.Errorf("the page is %q, not %q: %v", got, want, err)
	}
	if again, err := rewrite(got, "one", "new\n"); err != nil || again != got {
		t.Errorf("a second time it is %q: %v", again, err)
	}
}

func TestPageWithoutBothMarkersIsLeftAlone(t *testing.T) {
	begin, end := marker("begin", "peers"), marker("end", "peers")
	for _, page := range []string{"", begin, end, end + begin, begin + begin + end} {
		if got, err := rewrite(page, "peers", "new"); err == nil {
			t.Errorf("%q has become %q", page, got)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "page.md")
	if err := os.WriteFile(path, []byte("by hand\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := example().WriteSection("peers", path); err == nil {
		t.Error("a page without markers is written to")
	}
	text, _ := os.ReadFile(path)
	if _, err := os.Stat(filepath.Join(dir, "page-peers.svg")); string(text) != "by hand\n" ||
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("the page is now %q, and the picture: %v", text, err)
	}
}

func TestTextIsWrittenBetweenItsMarkers(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	begin, end := marker("begin", "4.3"), marker("end", "4.3")
	if err := os.WriteFile(page, []byte("before\n"+begin+"\nold\n"+end+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := WriteText("4.3", page, "new\n")
	if text, _ := os.ReadFile(page); err != nil || string(text) != "before\n"+begin+"\nnew\n"+end+"\n" {
		t.Errorf("the page is %q: %v", text, err)
	}
	if err := WriteText("4.0", page, "new\n"); err == nil {
		t.Error("a text without markers is written")
	}
}

func TestFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	page, samples := filepath.Join(dir, "page.md"), filepath.Join(dir, "samples.json")
	empty := marker("begin", "peers") + "\n" + marker("end", "peers") + "\n"
	if err := os.WriteFile(page, []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(example().WriteSection("peers", page), example().WriteJSON(samples)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{page: ": page-peers.svg\n", filepath.Join(dir, "page-peers.svg"): "<svg "} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q: %v", path, want, err)
		}
	}
	text, err := os.ReadFile(samples)
	var r Report
	if err = errors.Join(err, json.Unmarshal(text, &r)); err != nil {
		t.Fatal(err)
	}
	if got := r.Measures[0].Results[0].Samples; !slices.Equal(got, []float64{10, 30}) || r.Commit != "0123abc-dirty" {
		t.Errorf("the samples are %v, of %s", got, r.Commit)
	}
}
