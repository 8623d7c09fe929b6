package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/prover/history"
)

// releasing is for how long a client does not wait after its command: it gives the lock back, and ends or waits again.
const releasing = 5 * time.Second

// replacing is for how long a client that gave up is missed: one that comes until then waits on for it.
const replacing = 500 * time.Millisecond

// change is one moment at which something begins or ends.
type change struct {
	at   int64
	step int // 1: it begins, -1: it ends
	of   kind
	slot int    // of a run; 0: it is not known
	wait *clock // of a client
}

type kind int

// In the order in which they are taken of one moment.
const (
	faultChanges kind = iota
	runChanges
	waitChanges
)

// clock is how long a slot has been denied to clients, or slots to a client.
type clock struct {
	what, meanwhile string // for people
	since, lasted   int64

	taken int // a slot: by how many commands
}

// progress finds what is denied while nothing is broken: whenever a slot is free and a client waits, either each free slot
// is, because there is a client for each, or each client that waits is, because there is a slot for each, or both.
func progress(m *matter) Verdict {
	w := watch{bound: int64(m.bounds.Progress), left: &clock{}}
	told := m.slotless()
	for n := range m.bounds.Slots {
		slot := "a slot"
		if m.bounds.Slots > 1 && told == "" {
			slot = fmt.Sprintf("slot %d", n+1)
		}
		w.slots = append(w.slots, &clock{what: slot + " was free", meanwhile: "clients waited"})
	}
	for _, c := range m.changes(told == "") {
		w.take(c)
	}
	w.pass(m.end)
	w.restart()
	found := w.denied
	if !slices.ContainsFunc(found, func(v Violation) bool { return !m.allowed("progress", v) }) {
		found = append(found, w.starved...) // else it is the other side of the same
	}
	if w.longest == 0 {
		return unless("no client waited for a free slot while nothing was broken", found)
	}
	if m.bounds.Slots > 1 && told != "" && w.unsure > w.bound && len(found) == 0 {
		return unless(fmt.Sprintf("some slot was free for %s while clients waited, and %s", length(w.unsure), told), found)
	}
	v := unless("", found)
	v.Note = fmt.Sprintf("clients waited for a free slot for %s at most", length(w.longest))
	if m.bounds.Slots > 1 && told != "" {
		v.Note += "; slots were not told apart: " + told
	}
	return v
}

// changes returns all moments in order.
func (m *matter) changes(told bool) (all []change) {
	add := func(c change, at, until int64) {
		c.at, c.step = at, 1
		all = append(all, c)
		c.at, c.step = until, -1
		all = append(all, c)
	}
	runs := map[string][]Run{} // by client
	for _, r := range m.runs {
		runs[r.Client] = append(runs[r.Client], r)
		slot := 0
		if told {
			slot = m.slot(r)
		}
		if slot <= m.bounds.Slots { // others do not exist
			add(change{of: runChanges, slot: slot}, r.At, r.Until)
		}
	}
	for _, e := range m.history {
		switch e.Kind {
		case history.Fault:
			add(change{of: faultChanges}, e.At, e.Until)
		case history.Client:
			waits := func(at, until int64) {
				if at < until {
					what := "client " + e.Client + " waited"
					add(change{of: waitChanges, wait: &clock{what: what, meanwhile: "a slot was free for it"}}, at, until)
				}
			}
			at, until := e.At, cmp.Or(e.Until, m.end)
			for _, r := range runs[e.Client] {
				waits(at, min(r.At, until))
				at = max(at, r.Until+int64(releasing))
			}
			if at < until && e.Until != 0 { // it has left without a slot
				i := slices.IndexFunc(m.history, func(next history.Event) bool {
					return next.Kind == history.Client && e.Until <= next.At && next.At <= e.Until+int64(replacing)
				})
				if i >= 0 {
					until = max(until, m.history[i].At-1)
				}
			}
			waits(at, until)
		}
	}
	slices.SortStableFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.of, b.of), cmp.Compare(b.step, a.step))
	})
	return all
}

// watch goes through the changes. Time in which a fault lasts does not count, and what was before one neither.
type watch struct {
	bound        int64
	slots, waits []*clock // waits: of clients that wait
	left         *clock   // of the last client that left without a command: the next one that comes waits on for it
	began        int64    // the last command
	some         clock    // whichever slot was free
	unsure       int64    // for how long that was while clients waited
	faults       int      // that last
	at           int64    // of the last change
	longest      int64

	denied, starved []Violation // by slots, and by clients
}

func (w *watch) take(c change) {
	w.pass(c.at)
	switch {
	case c.of == faultChanges:
		w.restart()
		w.faults += c.step
	case c.of == runChanges:
		slot := w.slot(c)
		slot.taken += c.step
		w.look(slot, &w.denied)
		if c.step > 0 {
			w.began = c.at
			if !slices.ContainsFunc(w.slots, func(s *clock) bool { return s.taken == 0 }) {
				for _, wait := range w.waits {
					w.look(wait, &w.starved)
				}
			}
		}
	case c.step > 0:
		c.wait.since, c.wait.lasted, w.left = w.left.since, w.left.lasted, &clock{}
		w.waits = append(w.waits, c.wait)
	default:
		w.waits = slices.DeleteFunc(w.waits, func(other *clock) bool { return other == c.wait })
		if w.left = c.wait; c.at == w.began || c.wait.lasted > w.bound {
			w.look(c.wait, &w.starved)
		}
	}
}

// slot returns that of a run; where it is not known, the one that lets the least be blamed.
func (w *watch) slot(c change) *clock {
	if c.slot > 0 {
		return w.slots[c.slot-1]
	}
	order := func(a, b *clock) int { return cmp.Or(cmp.Compare(a.taken, b.taken), cmp.Compare(b.lasted, a.lasted)) }
	if c.step > 0 {
		return slices.MinFunc(w.slots, order)
	}
	return slices.MaxFunc(w.slots, order)
}

// pass has clocks go on until a moment.
func (w *watch) pass(at int64) {
	passed, free := at-w.at, 0
	for _, slot := range w.slots {
		if slot.taken == 0 {
			free++
		}
	}
	if w.faults > 0 || free == 0 || len(w.waits) == 0 {
		w.some.lasted = 0
	} else {
		w.some.lasted += passed
		w.unsure = max(w.unsure, w.some.lasted)
	}
	if w.faults == 0 {
		w.count(w.slots, passed, len(w.waits) >= free)
		w.count(w.waits, passed, free >= len(w.waits))
		w.count([]*clock{w.left}, passed, false)
	}
	w.at = at
}

// count adds time in which all were denied. In other time clocks go back, unless they are over the bound: clients that
// leave again and again without a slot have waited all together, and such as wait for a moment now and then have not.
func (w *watch) count(all []*clock, passed int64, denied bool) {
	for _, c := range all {
		switch {
		case c.taken > 0:
		case denied:
			if c.lasted == 0 {
				c.since = w.at
			}
			c.lasted += passed
			w.longest = max(w.longest, c.lasted)
		case c.lasted <= w.bound:
			c.lasted = max(0, c.lasted-passed)
		}
	}
}

// restart sets all clocks to zero.
func (w *watch) restart() {
	for _, slot := range w.slots {
		w.look(slot, &w.denied)
	}
	for _, wait := range append(w.waits, w.left) {
		w.look(wait, &w.starved)
	}
}

// look sets a clock to zero, and blames what it shows.
func (w *watch) look(c *clock, found *[]Violation) {
	if c.lasted > w.bound {
		*found = append(*found, blame(c.since, w.at, nil, "%s for %s while %s", c.what, length(c.lasted), c.meanwhile))
	}
	c.lasted = 0
}
