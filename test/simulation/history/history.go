// Package history is what has happened in a simulation, and judges it. It knows times, names and AMQP, and nothing of
// berth: what judges berth must not share its bugs.
//
//	h := history.New(verbose)
//	h.Note(now, "host 3", "killed")
//	h.Begin(now, history.Span{Host: "host 3", Slot: 1, Term: 7})
//	h.Violations()
package history

import (
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"strings"
	"time"
)

// History is one history. It is not safe for use by several goroutines. Use New.
type History struct {
	Windows *Windows
	Silent  bool // notes are neither kept nor summed, which is faster

	lines      []string
	keep       bool
	sum        hash.Hash64
	count      int
	spans      map[int]*Span // that go on, by their numbers
	all        int
	last       map[int]*Span // by slot: the one that has started last
	violations []string
}

// New returns an empty history. With keep, String returns all of it.
func New(keep bool) *History {
	return &History{Windows: &Windows{}, keep: keep, sum: fnv.New64a(), spans: map[int]*Span{}, last: map[int]*Span{}}
}

// Note adds what somebody does.
func (h *History) Note(at time.Duration, who, format string, args ...any) {
	if h.Silent {
		return
	}
	h.count++
	what := fmt.Sprintf(format, args...)
	fmt.Fprint(h.sum, int64(at), who, what)
	if h.keep {
		h.lines = append(h.lines, fmt.Sprintf("%14.6f  %-12s %s", at.Seconds(), who, what))
	}
}

// Violate notes that something has happened that must not.
func (h *History) Violate(at time.Duration, who, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	h.violations = append(h.violations, fmt.Sprintf("%.6f %s: %s", at.Seconds(), who, what))
	h.Note(at, who, "VIOLATION: %s", what)
}

// Violations returns what has happened that must not.
func (h *History) Violations() []string { return h.violations }

// Sum returns a number that two histories share if all in them is the same, and how many notes there are.
func (h *History) Sum() (sum uint64, notes int) { return h.sum.Sum64(), h.count }

// WriteTo writes all notes.
func (h *History) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, strings.Join(h.lines, "\n")+"\n")
	return int64(n), err
}

// Span is a command from its start to the death of its tree.
type Span struct {
	ID       int
	Host     string
	Slot     int
	Term     uint64
	From, To time.Duration

	suspended bool // nothing of it runs, or it has just been thawed
}

// Begin adds a command that starts, and returns it.
func (h *History) Begin(at time.Duration, s Span) *Span {
	h.all++
	s.ID, s.From = h.all, at
	h.Note(at, s.Host, "=== command %d starts in slot %d, term %d", s.ID, s.Slot, s.Term)
	h.spans[s.ID] = &s
	h.beside(at, &s)
	if before := h.last[s.Slot]; before != nil && s.Term <= before.Term && !(s.Term == before.Term && s.Host == before.Host) {
		h.Violate(at, s.Host, "command %d starts in slot %d with term %d after term %d of %s", s.ID, s.Slot, s.Term,
			before.Term, before.Host)
	}
	h.last[s.Slot] = &s
	return &s
}

// beside looks for others that run in the slot of one that runs.
func (h *History) beside(at time.Duration, s *Span) {
	for id := range h.all {
		other := h.spans[id+1]
		if other != nil && other != s && other.Slot == s.Slot && !other.suspended {
			h.Violate(at, s.Host, "command %d runs in slot %d beside command %d of %s", s.ID, s.Slot, other.ID, other.Host)
		}
	}
}

// Suspend is for a command whose host stops as a whole, or goes on. After that it may run for a moment beside another one:
// see Alone.
func (h *History) Suspend(at time.Duration, s *Span, on bool) {
	if on {
		s.suspended = true
	}
}

// Alone is for a command that has run on for a moment since its host goes on: it is over if there is another one.
func (h *History) Alone(at time.Duration, s *Span) {
	s.suspended = false
	h.beside(at, s)
}

// End is for a command whose tree is dead.
func (h *History) End(at time.Duration, s *Span, why string) {
	if h.spans[s.ID] == nil {
		return
	}
	delete(h.spans, s.ID)
	s.To = at
	h.Note(at, s.Host, "=== command %d in slot %d is dead: %s", s.ID, s.Slot, why)
}

// Running returns since when a command runs in a slot, and whether one does.
func (h *History) Running(slot int) (since time.Duration, runs bool) {
	s := h.last[slot]
	if s == nil || h.spans[s.ID] == nil {
		return 0, false
	}
	return s.From, true
}

// Spans returns how many commands have started, and how many go on.
func (h *History) Spans() (all, running int) { return h.all, len(h.spans) }
