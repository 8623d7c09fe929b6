package names_test

import (
	"strings"
	"testing"

	"berth/lock"
	"berth/lock/rabbit/names"
)

// The longest name leaves room for two digits.
func TestMarksOfALongNameDiffer(t *testing.T) {
	n := names.Names{ID: lock.ID{Kind: lock.TokenSemaphore, Name: strings.Repeat("n", 247)}}
	marks := map[string]bool{}
	for range 1000 {
		mark := n.Mark()
		if len(mark) > 255 {
			t.Fatalf("%d bytes: %s", len(mark), mark)
		}
		marks[mark] = true
	}
	if len(marks) < 50 {
		t.Errorf("%d different ones", len(marks))
	}
}
