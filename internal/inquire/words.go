package inquire

import (
	"fmt"
	"strings"
	"unicode"

	"berth/lock"
)

// Who names a berth for messages: host and process.
func Who(r *lock.Report) string {
	if r == nil {
		return "an unknown berth"
	}
	return fmt.Sprintf("%s, pid %d", Printable(r.Host), r.PID)
}

// How many characters of what somebody else has said are shown.
const (
	maxName   = 100
	maxReason = 500 // with the path of a file, and what is wrong there
)

// Printable returns what somebody else says of itself in a form that does nothing to a terminal: one line, not endless.
func Printable(text string) string { return printed(text, maxName) }

// Reason is Printable for a sentence.
func Reason(text string) string { return printed(text, maxReason) }

func printed(text string, longest int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longest {
			return b.String() + "..."
		}
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}
