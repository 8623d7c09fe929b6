package slotdir

import (
	"os"
	"testing"
	"time"
)

// Linux does not cut so short a write in two when its process is killed, as far
// as is known; some file systems are programs.
func TestTermsGrowThoughTheLastOneWasWrittenInPart(t *testing.T) {
	dir := Dir(t.TempDir())
	before, after := termText(999, Boot()), termText(1000, Boot())
	if len(after) != len(before) || len(after) > maxTermFile {
		t.Fatalf("the file would have %d bytes after %d; it reads %d at most", len(after), len(before), maxTermFile)
	}
	for cut := range len(after) {
		if err := os.WriteFile(dir.TermPath(1), []byte(after[:cut]+before[cut:]), 0o600); err != nil {
			t.Fatal(err)
		}
		if next, err := dir.NextTerm(1); err != nil || next <= 999 {
			t.Errorf("term %d, error %v, comes after term 999, of whose successor %d bytes were written", next, err,
				cut)
		}
	}
}

func TestFirstTermIsNotZeroBeforeTheClockIsSet(t *testing.T) {
	if first := firstTerm(time.Unix(-1000, 0)); first == 0 || first > 1000 {
		t.Fatalf("the first term is %d", first)
	}
}
