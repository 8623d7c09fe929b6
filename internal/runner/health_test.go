package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"berth/internal/guard"
	"berth/supervisor"
)

func TestOnlyTheEndOfWhatACheckWritesIsKept(t *testing.T) {
	for written, want := range map[string]string{
		"":                       "",
		"  first\nsecond\n":      "first\nsecond",
		strings.Repeat("x", 1e6): strings.Repeat("x", maxOutput),
		"\xff\xfe":               "\ufffd",
	} {
		w, end, err := gather()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.WriteString(written)
		if got := end(); got != want {
			t.Errorf("of %.20q %.20q is kept", written, got)
		}
	}
}

// A process that is not the check's may have what it writes to open for as long as it likes.
func TestOutputIsNotWaitedForAfterACheck(t *testing.T) {
	w, end, err := gather()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.WriteString("all")
	other, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := end(); got != "all" {
		t.Errorf("it is %q", got)
	}
}

func TestWhatIsNotKnownOfACheckIsNoFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want supervisor.CheckOutcome
	}{
		{nil, supervisor.CheckSucceeded},
		{errors.New("it ended with 1"), supervisor.CheckFailed},
		{fmt.Errorf("%w: its guard died", guard.ErrUnjudged), supervisor.CheckUnknown},
		{context.Canceled, supervisor.CheckUnknown},
	} {
		if got := verdict(c.err, ""); got.Outcome != c.want {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}
