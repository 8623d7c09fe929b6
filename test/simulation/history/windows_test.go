package history

import (
	"strings"
	"testing"
	"time"
)

func TestTableNamesTheWindowsThatNothingFellInto(t *testing.T) {
	w := &Windows{}
	w.Step(1*time.Second, "berth", "asks")
	w.Strike("berth", false)
	w.Step(2*time.Second, "berth", "is answered")
	w.Step(3*time.Second, "berth", "asks")
	w.Step(3*time.Second, "berth", "asks twice") // no time passes in between
	out := &strings.Builder{}
	w.Print(out, []string{"asks", "asks twice"})
	for _, want := range []string{
		"never struck: 2 of 3 windows: \"(start)\" (1), \"is answered\" (1)\n",
		"never open, of those that faults wait for: 1: \"asks twice\"\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}
