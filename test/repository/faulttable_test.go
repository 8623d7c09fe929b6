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

// faultTable has a row for each fault: its name first, and the tests that cover it last.
const faultTable = "docs/faults.tsv"

var (
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
	lines, rows := strings.Split(strings.TrimSpace(read(t, faultTable)), "\n"), coverage(t)
	for i, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		id := cells[0]
		suites := rows[id]
		delete(rows, id)
		if len(suites) == 0 {
			t.Errorf("no test covers the fault %s; say '// fault: %s' above one that does", id, id)
		}
		var column []string
		for _, suite := range slices.Sorted(maps.Keys(suites)) {
			column = append(column, fmt.Sprintf("%s %d", suite, suites[suite]))
		}
		cells[len(cells)-1] = strings.Join(column, ", ")
		lines[i+1] = strings.Join(cells, "\t")
	}
	for id := range rows {
		t.Errorf("a test covers the fault %s, which %s does not have", id, faultTable)
	}
	page.WantFile(t, top+"/"+faultTable, strings.Join(lines, "\n")+"\n")
}
