package repository

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/test/page"
)

//go:generate go test -run TestEveryFaultInTheTableHasATest . -args -update

const faultPage = top + "/docs/safety.md"

var (
	faultRow = regexp.MustCompile("(?m)^(\\| `([a-z0-9-]+)` \\|.* \\|)[^|]*\\|$")

	// A test says which rows it covers: in a comment above its function, or above
	// its entry in a table of tests.
	mark   = regexp.MustCompile(`(?m)^\s*// fault: .*$`)
	marked = regexp.MustCompile(`(?m)^\s*// fault: ([a-z0-9, -]+)\n(?:\s*//.*\n)*\s*(?:func |\{)`)
)

// coverage counts the tests of each row of the table, by suite. The suite of a
// test is the last element of its directory.
func coverage(t *testing.T) map[string]map[string]int {
	t.Helper()
	rows := map[string]map[string]int{}
	for path, source := range sources(t, isTest) {
		tests := marked.FindAllStringSubmatch(source, -1)
		if len(tests) != len(mark.FindAllString(source, -1)) {
			t.Errorf("%s has a '// fault:' comment that stands above no test", path)
		}
		for _, test := range tests {
			for id := range strings.SplitSeq(test[1], ", ") {
				if rows[id] == nil {
					rows[id] = map[string]int{}
				}
				rows[id][filepath.Base(filepath.Dir(path))]++
			}
		}
	}
	return rows
}

func TestEveryFaultInTheTableHasATest(t *testing.T) {
	table, rows := page.Part(t, faultPage, "faults"), coverage(t)
	want := faultRow.ReplaceAllStringFunc(table, func(row string) string {
		cells := faultRow.FindStringSubmatch(row)
		id := cells[2]
		suites := rows[id]
		delete(rows, id)
		if len(suites) == 0 {
			t.Errorf("no test covers the fault %s; say '// fault: %s' above one that does", id, id)
		}
		var column []string
		for _, suite := range slices.Sorted(maps.Keys(suites)) {
			column = append(column, fmt.Sprintf("%s %d", suite, suites[suite]))
		}
		return fmt.Sprintf("%s %s |", cells[1], strings.Join(column, ", "))
	})
	for id := range rows {
		t.Errorf("a test covers the fault %s, which %s does not have", id, faultPage)
	}
	page.Want(t, faultPage, "faults", want)
}
