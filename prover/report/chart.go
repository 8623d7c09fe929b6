package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"berth/prover/history"
	"berth/prover/judge"
)

// chart is what the page draws: lanes of bars, below one axis.
type chart struct {
	From  int64    `json:"from"` // the first moment of the history; all other times count from there, in microseconds
	Span  int64    `json:"span"`
	Notes []string `json:"notes"` // what bars are, for people
	Lanes []*lane  `json:"lanes"`

	noted map[string]int64 // the index of each note
}

// lane is what happened on one slot, or to one client and those that came when it had gone; one lane each has all
// violations and all faults.
type lane struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"` // side by side, for what overlaps
	Bars []bar  `json:"bars"`

	ends []int64 // of the last bar of each row
}

// bar is a kind, a row (wholeLane: all of them), when it begins and ends, the index of its note, and a slot (0: not
// told).
type bar [6]int64

// The kinds of bars, as page.js knows them: what comes later is drawn over what came before.
const (
	present   = iota // a client is there
	undated          // a client is there, and its end is not known
	alive            // a command lives
	left             // a process was left over
	fault            // something was broken
	violation        // a promise was
)

const (
	wholeLane = -1
	mostRows  = 6  // of a lane; what finds no room is drawn over the last one
	mostSlots = 64 // that get lanes before anything ran on them
)

// drawing is a chart that is being made.
type drawing struct {
	chart
	report             Report
	violations, faults lane
	slots              map[int64]*lane
	places             []*lane          // of clients
	clients            map[string]*lane // the place of each
	on                 map[string]*lane // the slot of each run
	slotCount          int
}

// draw makes the chart of a report.
func draw(r Report) chart {
	from, to := r.bounds()
	r.History = slices.Clone(r.History) // whose events come in any order
	slices.SortStableFunc(r.History, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	d := drawing{report: r, slots: map[int64]*lane{}, clients: map[string]*lane{}, on: map[string]*lane{}, slotCount: 1}
	d.From, d.Span, d.noted = from/1000, max(1, (to-from+999)/1000), map[string]int64{}
	d.Notes = []string{} // and not null
	d.violations.Name, d.faults.Name = "violations", "faults"
	for _, event := range r.History {
		if event.Kind == history.Lock {
			d.slotCount = max(1, event.Slots)
		}
	}
	for slot := range min(d.slotCount, mostSlots) {
		d.slot(slot + 1)
	}
	d.placeClients()
	d.drawClients()
	for _, run := range judge.Runs(r.History) {
		d.drawRun(run)
	}
	d.drawFaults()
	for _, v := range r.blamed() {
		d.drawViolation(v)
	}
	d.join()
	return d.chart
}

// join puts the lanes in order, and the bars of each in the order in which they are drawn.
func (d *drawing) join() {
	for _, one := range []*lane{&d.violations, &d.faults} {
		if len(one.Bars) > 0 {
			d.Lanes = append(d.Lanes, one)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(d.slots)) {
		d.Lanes = append(d.Lanes, d.slots[slot])
	}
	d.Lanes = append(d.Lanes, d.places...)
	for _, one := range d.Lanes {
		one.Rows = int64(max(1, len(one.ends)))
		one.Bars = slices.Concat([]bar{}, one.Bars) // [] in JSON, and not null
		slices.SortStableFunc(one.Bars, func(a, b bar) int {
			return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[2], b[2]))
		})
	}
}

// slot returns the lane of a slot. Of a lock with one slot no command needs to be told.
func (d *drawing) slot(n int) *lane {
	if n == 0 && d.slotCount == 1 {
		n = 1
	}
	key := int64(n)
	if d.slots[key] == nil {
		d.slots[key] = &lane{Name: fmt.Sprintf("slot %d", n)}
		if n == 0 {
			d.slots[key].Name = "no slot told"
		}
	}
	return d.slots[key]
}

// bar is one with times of the history, and its note.
func (d *drawing) bar(kind, row, at, until int64, note string) bar {
	return bar{kind, row, at/1000 - d.From, max(at, until)/1000 - d.From, d.note(note)}
}

func (d *drawing) note(text string) int64 {
	i, known := d.noted[text]
	if !known {
		i = int64(len(d.Notes))
		d.noted[text] = i
		d.Notes = append(d.Notes, clean(text))
	}
	return i
}

// row returns a row of the lane that is free from then on, and takes it.
func (l *lane) row(at, until int64) int64 {
	for i, end := range l.ends {
		if end < at {
			l.ends[i] = until
			return int64(i)
		}
	}
	if len(l.ends) < mostRows {
		l.ends = append(l.ends, until)
	}
	return int64(len(l.ends) - 1)
}

// placeClients gives each client a lane, after another one that has gone if there is any: campaigns have hundreds.
func (d *drawing) placeClients() {
	from, until := map[string]int64{}, map[string]int64{}
	for _, event := range d.report.History {
		end := max(event.At, event.Until)
		if event.Kind == history.Client && event.Until == 0 {
			end = math.MaxInt64
		}
		if _, known := from[event.Client]; !known {
			from[event.Client] = event.At // the first one: they are in order
		}
		until[event.Client] = max(until[event.Client], end)
	}
	names := d.report.clients()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(from[a], from[b]) })
	var ends []int64
	for _, name := range names {
		i := slices.IndexFunc(ends, func(end int64) bool { return end < from[name] })
		if i < 0 {
			i = len(ends)
			ends, d.places = append(ends, 0), append(d.places, &lane{Name: name})
		} else {
			d.places[i].Name = fmt.Sprintf("clients %d", i+1)
		}
		ends[i], d.clients[name] = until[name], d.places[i]
	}
}

func (d *drawing) drawClients() {
	end := d.From*1000 + d.Span*1000
	for _, event := range d.report.History {
		on := d.clients[event.Client]
		switch {
		case event.Kind == history.Leftover && on != nil:
			note := fmt.Sprintf("left over of %s: process %d", event.Client, event.PID)
			on.Bars = append(on.Bars, d.bar(left, wholeLane, event.At, event.At, note))
		case event.Kind != history.Client:
		case event.Until == 0:
			on.Bars = append(on.Bars, d.bar(undated, wholeLane, event.At, end, event.Client+": its end is not known"))
		default:
			note := fmt.Sprintf("%s: ended with status %d", event.Client, event.Status)
			on.Bars = append(on.Bars, d.bar(present, wholeLane, event.At, event.Until, note))
		}
	}
}

// drawRun draws a command on its slot and its client, where it lived: processes of it may have come later.
func (d *drawing) drawRun(run judge.Run) {
	note := []string{run.ID}
	if run.Slot > 0 {
		note = append(note, fmt.Sprintf("slot %d", run.Slot))
	}
	if run.Term > 0 {
		note = append(note, fmt.Sprintf("term %d", run.Term))
	}
	if len(run.Lives) > 1 {
		note = append(note, fmt.Sprintf("%d processes", len(run.Lives)))
	}
	if pid := run.Lives[0].PID; pid > 0 {
		note = append(note, fmt.Sprintf("pid %d", pid))
	}
	d.on[run.ID] = d.slot(run.Slot)
	on := []*lane{d.on[run.ID]}
	if client := d.clients[run.Client]; client != nil {
		on = append(on, client)
	}
	for _, one := range on {
		row := one.row(run.At, run.Until)
		for _, life := range spells(run.Lives) {
			b := d.bar(alive, row, life.At, life.Until, strings.Join(note, ", "))
			b[5] = int64(run.Slot)
			if d.slotCount == 1 {
				b[5] = 1
			}
			one.Bars = append(one.Bars, b)
		}
	}
}

// spells puts lives together that touch, which are in order of their start.
func spells(lives []history.Event) (all []history.Event) {
	for _, life := range lives {
		if n := len(all); n > 0 && life.At <= all[n-1].Until {
			all[n-1].Until = max(all[n-1].Until, life.Until)
			continue
		}
		all = append(all, life)
	}
	return all
}

func (d *drawing) drawFaults() {
	for _, event := range d.report.History {
		if event.Kind != history.Fault {
			continue
		}
		note := event.Fault
		if event.Target != "" {
			note += " of " + event.Target
		}
		if event.Failed != "" {
			note += ": " + event.Failed
		}
		until := max(event.At, event.Until)
		d.faults.Bars = append(d.faults.Bars, d.bar(fault, d.faults.row(event.At, until), event.At, until, note))
		if on := d.clients[event.Target]; on != nil {
			on.Bars = append(on.Bars, d.bar(fault, wholeLane, event.At, until, note))
		}
	}
}

// drawViolation draws it in a lane of its own, and over the lanes of what is blamed for it.
func (d *drawing) drawViolation(v judge.Violation) {
	note, until := v.What, max(v.At, v.Until)
	d.violations.Bars = append(d.violations.Bars,
		d.bar(violation, d.violations.row(v.At, until), v.At, until, note))
	on := map[*lane]bool{}
	for _, life := range v.Lives {
		if slot := d.on[life.Run]; slot != nil {
			on[slot] = true
		}
		if client := d.clients[life.Client]; client != nil {
			on[client] = true
		}
	}
	for one := range on {
		one.Bars = append(one.Bars, d.bar(violation, wholeLane, v.At, until, note))
	}
}

// blamed returns the violations of all checkers in order, with the checker's name in front.
func (r Report) blamed() (all []judge.Violation) {
	for _, verdict := range r.Verdicts {
		for _, v := range verdict.Violations {
			v.What = verdict.Checker + ": " + v.What
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b judge.Violation) int { return cmp.Compare(a.At, b.At) })
	return all
}
