package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The README's figures are those of the page that it links, rounded.
func TestReadmeHasTheFiguresOfThePerformancePage(t *testing.T) {
	for row, of := range map[string]string{
		"| wrapper killed: next command after |": "| Wrapper killed (SIGKILL): until the standby's command starts |",
		"| start with the lock free |":           "| From exec to the command's first instruction, lock free |",
		"| handover when a command ends |":       "| Handover: the holder's command ends, the waiter's starts |",
	} {
		short, long := figures(t, "README.md", row), figures(t, "docs/performance.md", of)
		if strings.Contains(row, "killed") { // which has no figure for one host
			long = append(long[:1], long[2:]...)
		}
		for i, figure := range short {
			if i >= len(long) {
				break // of what is documented only
			}
			_, fraction, _ := strings.Cut(figure, ".")
			exact, err := strconv.ParseFloat(long[i], 64)
			if scale := math.Pow10(len(fraction)); err != nil || figure != fmt.Sprintf("%.*f", len(fraction), math.Round(exact*scale)/scale) {
				t.Errorf("README.md: %s %s, and docs/performance.md has %s (%v)", row, figure, long[i], err)
			}
		}
	}
}

var (
	ratio  = regexp.MustCompile(`\([0-9.]+x\)`)
	number = regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?\b`)
)

// figures returns the numbers of a row of a table, up to the first cell that has something else.
func figures(t *testing.T, page, row string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n"+row)
	if !found {
		t.Fatalf("%s has no row %s", page, row)
	}
	rest, _, _ = strings.Cut(rest, "\n")
	rest, _, _ = strings.Cut(rest, "never")
	return number.FindAllString(ratio.ReplaceAllString(rest, ""), -1)
}
