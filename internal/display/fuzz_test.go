package display

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/internal/inquire"
	"berth/lock"
)

// harmless reports whether a terminal only shows it.
func harmless(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

// A holder answers what it likes, and an error can have the words of a broker in it.
func FuzzAnswersDoNothingToATerminal(f *testing.F) {
	f.Add([]byte(`{"host":"a\u001b[2Jb","state":"running\r\n","command":"\u009b31m","trouble":"\u0007\ud800","term":1}`),
		"403 \x1b]0;title\x07", "held", uint8(80), uint8(24))
	f.Add([]byte(`{"host":"a.b","since":"0001-01-01T00:00:00Z","pid":-1,"priority":-1,"holder":"`+"\x7f"+`"}`),
		"\u2028\x7f\u009b", "unknown", uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, answer []byte, problem, state string, width, height uint8) {
		report, err := lock.ReadReport(answer)
		if err != nil {
			return
		}
		if d, err := lock.ReadDecision("it", answer); err == nil && !harmless(d.Why) {
			t.Errorf("%q is read as %+v, %v", answer, d, err)
		}
		v := View{ID: lock.ID{Kind: lock.Semaphore, Name: "s"}, Now: time.Unix(1, 0), changed: map[int]time.Time{}}
		for slot := range int(height)%3 + 1 {
			v.Seen.Status.Slots = append(v.Seen.Status.Slots, lock.SlotStatus{
				Slot: slot + 1, State: lock.SlotState(state), Holder: &report, Successor: &report, HasSuccessor: true, Problem: problem,
			})
		}
		for _, v.Seen.Err = range []error{nil, errors.New(problem)} {
			for what, write := range map[string]func(*bytes.Buffer) error{
				"the table": func(b *bytes.Buffer) error { return v.WriteTable(b) },
				"the list":  func(b *bytes.Buffer) error { return WriteList(b, []View{v}) },
				"JSON":      func(b *bytes.Buffer) error { return v.WriteJSON(b) },
				"the list in JSON": func(b *bytes.Buffer) error {
					return WriteJSONList(b, []View{v})
				},
				"the screen": func(b *bytes.Buffer) error {
					b.WriteString(visible(strings.Join(v.Screen(int(width), int(height)), "\n")))
					return nil
				},
				"a name": func(b *bytes.Buffer) error {
					b.WriteString(inquire.Who(&report) + inquire.Printable(report.Command) + inquire.Reason(problem))
					return nil
				},
			} {
				var b bytes.Buffer
				if err := write(&b); err == nil && !harmless(b.String()) {
					t.Errorf("%s of %q and %q has %q", what, answer, problem, b.String())
				}
			}
		}
	})
}
