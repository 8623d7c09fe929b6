package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/test/page"
)

//go:generate go test -run TestEveryFaultInTheTableHasATest . -args -update

const faultPage = "docs/safety.md"

var (
	faultRow = regexp.MustCompile("(?m)^(\\| `([a-z0-9-]+)` \\|.* \\|)[^|]*\\|$")

	// A test says which rows it covers: in a comment above its function, or above
	// its entry in a table of tests.
	mark   = regexp.MustCompile(`(?m)^\s*// fault: .*$`)
	marked = regexp.MustCompile(`(?m)^\s*// fault: ([a-z0-9, -]+)\n(?:\s*//.*\n)*\s*(?:func |\{)`)
)

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// sources returns the files of Go that are wanted, by their path.
func sources(t *testing.T, wanted func(path string) bool) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && wanted(path) {
			files[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// coverage counts the tests of each row of the table, by suite. The suite of a
// test is the last element of its directory.
func coverage(t *testing.T) map[string]map[string]int {
	t.Helper()
	rows := map[string]map[string]int{}
	for path, source := range sources(t, isTest) {
		tests := marked.FindAllSubmatch(source, -1)
		if len(tests) != len(mark.FindAll(source, -1)) {
			t.Errorf("%s has a '// fault:' comment that stands above no test", path)
		}
		for _, test := range tests {
			for id := range strings.SplitSeq(string(test[1]), ", ") {
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
