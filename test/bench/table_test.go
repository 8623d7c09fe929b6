package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// example is a report with one of everything.
func example() *report {
	start := &measure{ID: "start", Title: "From exec <to> start", Unit: "ms", Plot: true}
	start.add("berth", 10)
	start.add("berth", 30)
	start.add("etcdctl lock", 50)
	start.of("flock").Text = "never & not"
	idle := &measure{ID: "idle", Title: "Requests", Unit: "per s", Plot: true, More: true}
	idle.add("berth", 2)
	idle.add("etcdctl lock", 0)
	return &report{
		Date: "2030-01-02", Flags: "-n 2", Machine: machine{Processor: "Abacus", Cores: 2, Memory: 2048, System: "Debian", Kernel: "6.1"},
		Contenders: []program{{"berth", "1.2"}, {"etcdctl lock", "3.4"}, {"flock", ""}},
		Measures:   []*measure{start, idle},
	}
}

func TestMarkdown(t *testing.T) {
	text := example().markdown("plot.svg")
	for _, line := range []string{
		"| measure | unit | better | berth | etcdctl lock | flock |",
		"| --- | --- | --- | ---: | ---: | ---: |",
		"| From exec <to> start | ms | less | 20.0 | 50.0 (2.5x) | never & not |",
		"| Requests | per s | more | 2.00 | 0 |  |",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no line\n%s\nin\n%s", line, text)
		}
	}
	for _, words := range []string{`make bench BENCH="-n 2"`, "2030-01-02", "2 cores (Abacus)", "(plot.svg)", "etcdctl lock 3.4"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
}

func TestTextHasColumns(t *testing.T) {
	lines := strings.Split(example().text(), "\n")
	if at := strings.Index(lines[0], "etcdctl lock"); at < 0 || strings.Index(lines[1], "50.0 (2.5x)") != at {
		t.Errorf("the columns do not stand below each other:\n%s", strings.Join(lines, "\n"))
	}
}

func TestPlotIsXMLAndHasEveryMedian(t *testing.T) {
	picture := example().plot()
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
	for _, want := range []string{"From exec <to> start", "20.0", "50.0", "never & not", "flock", "2.00", "0", "per s, more is better"} {
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
	if low, middle, high := a.at(2), a.at(63.2), a.at(2000); low <= 100 || high >= 400 || middle < 249 || middle > 251 {
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
	page := "# Title\n\n" + beginMarker + "\nold\n" + endMarker + "\n\n## More\n"
	got, err := rewrite(page, "new\n")
	if want := "# Title\n\n" + beginMarker + "\nnew\n" + endMarker + "\n\n## More\n"; err != nil || got != want {
		t.Errorf("the page is %q, not %q: %v", got, want, err)
	}
	if again, err := rewrite(got, "new\n"); err != nil || again != got {
		t.Errorf("a second time it is %q: %v", again, err)
	}
}

func TestPageWithoutBothMarkersIsLeftAlone(t *testing.T) {
	for _, page := range []string{"", beginMarker, endMarker, endMarker + beginMarker, beginMarker + beginMarker + endMarker} {
		if got, err := rewrite(page, "new"); err == nil {
			t.Errorf("%q has become %q", page, got)
		}
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("by hand\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := example().write(options{markdown: path}); err == nil {
		t.Error("a page without markers is written to")
	}
	if text, _ := os.ReadFile(path); string(text) != "by hand\n" {
		t.Errorf("the page is now %q", text)
	}
}

func TestFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	o := options{
		markdown: filepath.Join(dir, "page.md"), svg: filepath.Join(dir, "pictures.svg"), json: filepath.Join(dir, "samples.json"),
	}
	if err := example().write(o); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{o.markdown: "(pictures.svg)", o.svg: "<svg ", o.json: "\"samples\": [\n"} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q: %v", path, want, err)
		}
	}
}
