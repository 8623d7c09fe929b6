package checker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/test/faults/checker"
)

// records writes files, one per argument, and reads them.
func records(t *testing.T, files ...string) ([]checker.Run, error) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return checker.Read(dir)
}

func judge(t *testing.T, slots int, files ...string) checker.Verdict {
	t.Helper()
	runs, err := records(t, files...)
	if err != nil {
		t.Fatal(err)
	}
	return checker.Judge(runs, slots)
}

// blamed fails the test unless there is exactly one problem, with that text.
func blamed(t *testing.T, v checker.Verdict, text string) {
	t.Helper()
	if len(v.Problems) != 1 || !strings.Contains(v.Problems[0], text) {
		t.Errorf("problems %q, not one with %q", v.Problems, text)
	}
}

func TestOneAfterTheOtherIsFine(t *testing.T) {
	v := judge(t, 1, "start 1 7 100 a 1000\nalive 1001\nalive 2000\n", "start 1 8 101 b 2001\nalive 3000\n")
	if !v.OK() || v.Most != 1 || len(v.Runs) != 2 {
		t.Errorf("%+v", v)
	}
	if next, found := v.Next(1500); !found || next.Holder != "b" {
		t.Errorf("the next run is %v, %v", next, found)
	}
	if _, found := v.Next(2001); found {
		t.Error("a run was found after the last one")
	}
}

func TestSlotThatDoesNotExistIsFound(t *testing.T) {
	for slot, exists := range map[int]bool{0: false, 1: true, 2: true, 3: false} {
		v := judge(t, 2, fmt.Sprintf("start %d 7 100 a 1000\nalive 1001\n", slot))
		if exists && !v.OK() {
			t.Errorf("slot %d: %q", slot, v.Problems)
		} else if !exists {
			blamed(t, v, "a slot that does not exist")
		}
	}
}

func TestOverlapIsFoundAndMeasured(t *testing.T) {
	for name, second := range map[string]string{
		"another term":   "start 1 8 101 a 1500\nalive 3000\n",
		"another holder": "start 1 8 101 b 1500\nalive 3000\n",
	} {
		v := judge(t, 2, "start 1 7 100 a 1000\nalive 2000\n", second)
		blamed(t, v, "500ns of overlap")
		if v.Overlapped() != 500*time.Nanosecond || v.Most != 2 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestOverlapOfOneMomentIsFound(t *testing.T) {
	v := judge(t, 2, "start 1 7 100 a 1000\nalive 2000\n", "start 1 8 101 b 2000\n")
	blamed(t, v, "0s of overlap")
}

func TestOverlapWithARunThatIsNotTheLastIsFound(t *testing.T) {
	v := judge(t, 3, "start 1 7 100 a 1000\nalive 9000\n", "start 1 8 101 b 2000\n", "start 1 9 102 c 8000\n")
	if len(v.Overlaps) != 2 {
		t.Errorf("%+v", v.Overlaps)
	}
}

func TestAProcessThatOutlivesItsRunIsPartOfIt(t *testing.T) {
	v := judge(t, 2, "start 1 7 100 a 1000\nalive 2000\n", "start 1 7 105 a 1900\nalive 2600\n",
		"start 1 8 101 b 2500\nalive 3000\n")
	blamed(t, v, "100ns of overlap")
	if v.Runs[0].Processes != 2 {
		t.Errorf("%+v", v.Runs)
	}
}

func TestMoreThanThereAreSlotsIsFound(t *testing.T) {
	files := []string{"start 1 7 100 a 1000\nalive 2000\n", "start 2 7 101 b 1000\nalive 2000\n"}
	if v := judge(t, 2, files...); !v.OK() || v.Most != 2 {
		t.Errorf("%+v", v)
	}
	if v := judge(t, 1, files...); v.OK() || v.Most != 2 {
		t.Errorf("%+v", v)
	}
}

func TestTermsHaveToGrow(t *testing.T) {
	first := "start 1 7 100 a 1000\nalive 2000\n"
	blamed(t, judge(t, 1, first, "start 1 6 101 b 3000\n"), "term did not grow")
	blamed(t, judge(t, 1, first, "start 1 7 101 b 3000\n"), "term did not grow")
}

func TestWhatWasCutShortIsLeftOut(t *testing.T) {
	v := judge(t, 1, "", "start 1", "start 1 7 100 a 1000\nalive 2000\nalive 99")
	if len(v.Runs) != 1 || v.Runs[0].Last != 2000 || !v.OK() {
		t.Errorf("%+v", v)
	}
}

func TestNonsenseIsAnError(t *testing.T) {
	for _, text := range []string{
		"alive 1000\n", "start 1 100 a 1000\n", "start 1 7 100 a 1000\nalive x\n",
		"start 1 7 100 a 1000\nalive 999\n", "start 1 7 100 a 1000\nbye\n",
	} {
		if runs, err := records(t, text); err == nil {
			t.Errorf("%q was read as %v", text, runs)
		}
	}
}
