package repository

import (
	"strings"
	"testing"

	"berth/test/broken"
)

// Suites that take minutes and hours break berth on purpose, by replacing text of its source: late to learn that the text
// is no longer there.
func TestSourceHasTheTextThatBrokenBerthsReplace(t *testing.T) {
	for _, b := range broken.All {
		for _, c := range b.Changes {
			if n := strings.Count(read(t, c.File), c.Old); n != 1 {
				t.Errorf("%s has %q %d times, not once; bring test/broken up to date: %s", c.File, c.Old, n, b.Name)
			}
		}
	}
}
