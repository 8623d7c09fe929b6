package main

import "time"

// event is something that was done to the consumer at work.
type event struct {
	kind string        // handover, kill, partition
	at   time.Duration // when it began
	old  int           // the process that was at work
	next int           // the one that began after it
}

// verdict is what a journal says.
type verdict struct {
	lost      int // confirmed by the broker, and never done
	disorder  int // begun by a consumer after a higher number
	late      int // begun for the first time after a higher number, by whomever
	strangers int // consumers at work that no event explains
	of        map[string]*outcome
}

// outcome is what all events of one kind have led to.
type outcome struct {
	events  int
	both    int             // how often the old one was at work when the next one was, too
	longest time.Duration   // that this has lasted
	twice   int             // messages that two were at in the same moment
	again   int             // messages that were begun before, and the next one began again
	pauses  []time.Duration // until the next one's first message
}

// span is what one process did: the places of its first line and its last.
type span struct{ first, last int }

// judge judges a journal whose lines are in the order in which they were written. A
// process counts as at work from its first line to its last; one that was killed has
// written its last line up to 5 ms before.
func judge(lines []line, messages int, events []event) verdict {
	v := verdict{of: map[string]*outcome{}}
	spans, cause := map[int]*span{}, map[int]*outcome{}
	for i, l := range lines {
		if spans[l.pid] == nil {
			spans[l.pid] = &span{first: i}
		}
		spans[l.pid].last = i
	}
	for _, e := range events {
		if v.of[e.kind] == nil {
			v.of[e.kind] = &outcome{}
		}
		cause[e.next] = v.of[e.kind]
		v.of[e.kind].add(e, lines, *spans[e.old], *spans[e.next])
	}
	// The first consumer has no cause.
	none := &outcome{}
	for pid := range spans {
		if cause[pid] == nil {
			cause[pid] = none
			none.events++
		}
	}
	v.strangers = max(0, none.events-1)
	v.follow(lines, spans, cause)
	v.lost += messages
	return v
}

// add counts one event, between what two processes did.
func (o *outcome) add(e event, lines []line, old, next span) {
	o.events++
	begins, ended := lines[next.first].at, lines[old.last].at
	if old.last > next.first {
		o.both++
		o.longest = max(o.longest, ended-begins)
	}
	if e.kind != handover { // which is over when the old one has ended cleanly
		ended = e.at
	}
	o.pauses = append(o.pauses, max(0, begins-ended))
}

// follow goes from message to message.
func (v *verdict) follow(lines []line, spans map[int]*span, cause map[int]*outcome) {
	var highest int
	begun, done := map[int]bool{}, map[int]bool{}
	highestOf, at := map[int]int{}, map[int]int{}
	for i, l := range lines {
		switch l.what {
		case "begin":
			for other, number := range at {
				if other != l.pid && number == l.number && spans[other].last > i {
					cause[l.pid].twice++
				}
			}
			if begun[l.number] {
				cause[l.pid].again++
			} else if l.number < highest {
				v.late++
			}
			if l.number < highestOf[l.pid] {
				v.disorder++
			}
			begun[l.number], at[l.pid] = true, l.number
			highest, highestOf[l.pid] = max(highest, l.number), max(highestOf[l.pid], l.number)
		case "done":
			delete(at, l.pid)
			if !done[l.number] {
				done[l.number] = true
				v.lost--
			}
		}
	}
}
