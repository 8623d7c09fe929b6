package judge

import (
	"cmp"
	"fmt"
	"slices"

	"berth/prover/history"
)

// change is one moment at which something begins or ends.
type change struct {
	at     int64
	step   int    // 1: it begins, -1: it ends
	client string // whose state changes; "": none's
	of     kind
	slot   int // of a run
}

type kind int

// In the order in which they are taken of one moment.
const (
	faultChanges kind = iota
	runChanges
	clientChanges
)

// progress looks at each slot by itself where commands are told theirs, else at all as one.
func progress(m *matter) Verdict {
	lanes, places, told := 1, m.bounds.Slots, m.slotless()
	if told == "" {
		lanes, places = m.bounds.Slots, 1
	}
	changes := m.changes()
	var all watch
	for lane := range lanes {
		w := watch{bound: int64(m.bounds.Progress), places: places, clients: map[string]*contender{}}
		if lanes > 1 {
			w.slot = lane + 1
		}
		for _, c := range changes {
			w.take(c)
		}
		w.look(m.end)
		all.found, all.times = append(all.found, w.found...), all.times+w.times
		all.longest, all.waited = max(all.longest, w.longest), all.waited || w.waited
	}
	if !all.waited {
		return unless("no client waited", all.found)
	}
	v := unless("", all.found)
	v.Note = fmt.Sprintf("a slot was free while clients waited %d times, for %s at most", all.times,
		length(all.longest))
	if places > 1 {
		v.Note += "; slots were looked at as one: " + told
	}
	return v
}

// changes returns all moments in order.
func (m *matter) changes() (all []change) {
	add := func(c change, at, until int64) {
		c.at, c.step = at, 1
		all = append(all, c)
		c.at, c.step = until, -1
		all = append(all, c)
	}
	for _, e := range m.history {
		switch e.Kind {
		case history.Fault:
			add(change{of: faultChanges}, e.At, e.Until)
		case history.Client:
			add(change{of: clientChanges, client: e.Client}, e.At, cmp.Or(e.Until, m.end))
		}
	}
	for _, r := range m.runs {
		add(change{of: runChanges, client: r.Client, slot: r.Slot}, r.At, r.Until)
	}
	slices.SortStableFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.of, b.of), cmp.Compare(b.step, a.step))
	})
	return all
}

// contender is a client at a moment. It waits until its first command begins; what comes after that is one command more
// or less of its own.
type contender struct{ there, ran bool }

func (c contender) waits() bool { return c.there && !c.ran }

// watch goes through the changes and looks for how long places are free while clients wait and no fault lasts. Time in
// which no client waits does not count. What came before it does, unless the last one that waited has got a slot: clients
// that leave again and again without one have waited all together.
type watch struct {
	bound        int64
	slot, places int // slot 0: all

	clients                map[string]*contender
	waiting, taken, faults int
	at                     int64 // of the last change
	since, lasted          int64 // when the present wait began, and how much of it counts
	times                  int
	longest                int64
	waited                 bool // some client has, at some time
	found                  []Violation
}

func (w *watch) take(c change) {
	if w.waiting > 0 && w.taken < w.places && w.faults == 0 {
		if w.lasted == 0 {
			w.since = w.at
		}
		w.lasted += c.at - w.at
	}
	w.at = c.at
	here := c.of == runChanges && (w.slot == 0 || c.slot == w.slot)
	switch {
	case here:
		w.taken += c.step
	case c.of == faultChanges:
		w.faults += c.step
	}
	if c.client != "" {
		w.move(c)
	}
	w.waited = w.waited || w.waiting > 0
	if c.of == faultChanges || c.of == runChanges && c.step > 0 && (here || w.waiting == 0) {
		w.look(c.at)
	}
}

// move changes what one client does.
func (w *watch) move(c change) {
	one := w.clients[c.client]
	if one == nil {
		one = &contender{}
		w.clients[c.client] = one
	}
	before := one.waits()
	if c.of == runChanges {
		one.ran = true
	} else {
		one.there = c.step > 0
	}
	switch after := one.waits(); {
	case after && !before:
		w.waiting++
	case before && !after:
		w.waiting--
	}
}

// look ends a wait.
func (w *watch) look(at int64) {
	lasted := w.lasted
	if w.lasted = 0; lasted == 0 {
		return
	}
	w.times++
	w.longest = max(w.longest, lasted)
	if lasted <= w.bound {
		return
	}
	what := "a slot"
	if w.slot > 0 {
		what = fmt.Sprintf("slot %d", w.slot)
	}
	w.found = append(w.found, blame(w.since, at, nil, "%s was free for %s while clients waited", what,
		length(lasted)))
}
