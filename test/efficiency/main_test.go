package main

import (
	"os"
	"strings"
	"testing"

	"berth/test/bench/report"
)

// Little of everything is measured, on one broker: each scheme does what is asked of it, and
// each way to probe sees which queues are there.
func TestEverythingIsMeasured(t *testing.T) {
	little := sizes{crowd: 2, rounds: 1, hold: verifyEvery / 2, probes: 1, hasty: true}
	all := &book{}
	version, used, err := measureOn(t.Context(), little, os.Getenv("BERTH_TEST_BROKER"), true, all)
	if err != nil || version == "" || used <= 0 {
		t.Fatalf("version %q, %s of processor time: %v", version, used, err)
	}
	r := &report.Report{Measures: all.measures}
	page, err := os.ReadFile("../../docs/efficiency.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range r.Sections() {
		for _, marker := range []string{"<!-- bench:begin " + section + " -->", "<!-- bench:end " + section + " -->"} {
			if strings.Count(string(page), marker) != 1 {
				t.Errorf("docs/efficiency.txt does not have one line %s", marker)
			}
		}
	}
	for _, m := range r.Measures {
		for _, one := range m.Results {
			if len(one.Samples) == 0 {
				t.Errorf("%s, %s: nothing was measured of %s", m.Section, m.Title, one.Program)
			}
		}
	}
}
