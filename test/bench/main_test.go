package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/bench/report"
)

func TestWrongUsageIsNamed(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-n 0", "-n must be 1 or more"},
		{"-settle 0s", "-settle must be longer"},
		{"-only start,nothing", `no scenario "nothing"`},
		{"-waiters 2 -handovers 3", "as many -waiters"},
		{"more", `unexpected argument "more"`},
		{"-nonsense", "-nonsense"},
	} {
		var out, log bytes.Buffer
		status := run(t.Context(), strings.Fields(tc.args), &out, &log)
		if status != 2 || !strings.Contains(log.String(), tc.want) {
			t.Errorf("%s: status %d, %q; want 2 and %q", tc.args, status, &log, tc.want)
		}
	}
}

func TestReportDoesNotTellWhereFilesWere(t *testing.T) {
	o, err := parse(strings.Fields("-berth /somewhere/berth -n 3 -json=/somewhere/x --kills=2"), t.Output())
	if want := "-kills=2 -n=3"; err != nil || o.flags != want {
		t.Errorf("the flags are %q, not %q: %v", o.flags, want, err)
	}
}

// page returns a page with all sections, and what it says.
func page(t *testing.T) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "page.md")
	for _, section := range []string{"compared", "newest", "steps", "asked", "scale"} {
		text += "<!-- bench:begin " + section + " -->\nold\n<!-- bench:end " + section + " -->\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, text
}

// measured is a report of a section.
func measured(section string) *report.Report {
	m := &report.Measure{Section: section, Title: "Something", Unit: "ms"}
	m.Add("berth", 1)
	return &report.Report{Measures: []*report.Measure{m}}
}

func TestSectionThatIsMeasuredWholeIsWritten(t *testing.T) {
	path, _ := page(t)
	o := options{markdown: path, only: []string{"steps", "start"}}
	if err := o.write(measured("steps"), t.Logf); err != nil {
		t.Fatal(err)
	}
	if err := o.write(measured("compared"), t.Logf); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if strings.Count(string(text), "Something") != 1 || strings.Count(string(text), "old") != 4 {
		t.Errorf("the page is\n%s", text)
	}
}

func TestNewestHasASectionOfItsOwn(t *testing.T) {
	path, _ := page(t)
	o := options{markdown: path, newest: true}
	if err := o.write(measured("newest"), t.Logf); err != nil {
		t.Fatal(err)
	}
	for _, s := range o.comparisons() {
		if s.Section != "newest" {
			t.Errorf("%s is measured for section %s", s.Name, s.Section)
		}
	}
	o.only = []string{"start"}
	if err := o.write(measured("newest"), t.Logf); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if strings.Count(string(text), "Something") != 1 || !strings.Contains(string(text), "begin newest -->\n<") &&
		!strings.Contains(string(text), "begin newest -->\nCommit") {
		t.Errorf("the page is\n%s", text)
	}
}

func TestPageIsLeftAloneOnABusyMachine(t *testing.T) {
	path, before := page(t)
	if err := (options{markdown: path, busy: true}).write(measured("steps"), t.Logf); err != nil {
		t.Error(err)
	}
	stolen := measured("steps")
	stolen.Stolen = 0.3
	if err := (options{markdown: path}).write(stolen, t.Logf); err == nil || !strings.Contains(err.Error(), "30.0 %") {
		t.Errorf("figures of a machine whose processor was taken away: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != before {
		t.Errorf("the page is\n%s", text)
	}
}

func TestPageHasEverySection(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"compared", "newest", "steps", "asked", "scale"} {
		if len(names(section)) == 0 && section != "newest" {
			t.Errorf("nothing measures section %s", section)
		}
		for _, marker := range []string{"<!-- bench:begin " + section + " -->", "<!-- bench:end " + section + " -->"} {
			if strings.Count(string(text), marker) != 1 {
				t.Errorf("docs/performance.txt does not have one line %s", marker)
			}
		}
	}
}
