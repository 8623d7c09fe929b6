package ledger

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// History is what was seen of a slot's ledger. Its zero value has seen nothing.
type History struct {
	id       string             // of the holding that reads; "" for one that will not be recorded
	held     map[Holding]Record // of others
	released map[Holding]bool   // whether it had seen everybody else end by then: false is an early release
	own      uint64             // the highest term that is recorded under id; 0: none
	above    uint64             // the highest term that may have been recorded before, and released
	doubt    Doubt              // what does not count
}

// NewHistory returns what a holding has seen that has read these records. above is as in Visitor.
func NewHistory(id string, above uint64, records ...Record) History {
	h := History{id: id, above: above, held: map[Holding]Record{}, released: map[Holding]bool{}}
	for _, r := range records {
		h.add(r)
	}
	return h
}

// add notes a record. The same one twice changes nothing.
func (h *History) add(r Record) {
	switch {
	case r.Record == released:
		h.released[r.Holding] = h.released[r.Holding] || !r.Early
	case r.ID != "" && r.ID == h.id:
		h.own = max(h.own, r.Term)
	default:
		h.held[r.Holding] = r
	}
}

// Doubt returns what was seen that does not count.
func (h History) Doubt() Doubt { return h.doubt }

// Unknown reports whether the ledger does not tell which holders may live: there is something that does not count, or
// no record of another holder but of those that have left early.
func (h History) Unknown() bool { return h.doubt.Any || h.lacking() }

// lacking reports whether there is no record of another holder but of those who have left early: these have waited for
// somebody who is not among them.
func (h History) lacking() bool {
	for who := range h.held {
		if sawAll, over := h.released[who]; !over || sawAll {
			return false
		}
	}
	return true
}

// Unnamed reports whether no record of another holder counts. Then nothing tells how long the last one may live. Any
// record does: a queue loses its oldest messages first, and the writer of a later record had read the earlier ones, and
// says how long they may live, too.
func (h History) Unnamed() bool { return len(h.held) == 0 }

// Blank reports whether there is no record of another holder at all.
func (h History) Blank() bool { return h.Unnamed() && !h.doubt.Any }

// open returns the records of other holders that are not known to be over.
func (h History) open() (records []Record) {
	for who, r := range h.held {
		if _, over := h.released[who]; !over {
			records = append(records, r)
		}
	}
	return records
}

// Unsettled reports whether somebody may live of whom the ledger tells.
func (h History) Unsettled() bool { return h.doubt.Any || len(h.open()) > 0 }

// Awaits reports whether the holding of this term is one that is not known to be over.
func (h History) Awaits(term uint64) bool {
	return slices.ContainsFunc(h.open(), func(r Record) bool { return r.Term == term })
}

// past reports whether a record says nothing any more: of another holding that is over, or of an earlier term of this
// one.
func (h History) past(r Record) bool {
	if r.ID == h.id {
		return r.Term < h.own
	}
	_, over := h.released[r.Holding]
	return over
}

// Awaited returns the record of the last other holder that is not known to be over; its Term is 0 if there is none.
func (h History) Awaited() Record { return newest(slices.Values(h.open())) }

func newest(records iter.Seq[Record]) (last Record) {
	for r := range records {
		if r.Term > last.Term {
			last = r
		}
	}
	return last
}

// AllReleased reports whether the trees of all other holders are known to be dead. Each has to be released by itself:
// the holder of a higher term may have been recorded and have lost the slot again before it started anything.
func (h History) AllReleased() bool { return !h.Unknown() && len(h.open()) == 0 }

// Truncated reports whether a record is missing of which others tell, which the ledger does not keep then: that of the
// newest release, or of the holders for which those have waited that have left. An older release has come late, after a
// successor had removed the record. An early one tells nothing of others: its own record may never have been written,
// and where it was, nothing was started, and of the records before it none was removed but of holders that were over.
func (h History) Truncated() bool {
	last := newest(maps.Values(h.held)).Term
	for who, sawAll := range h.released {
		if sawAll && who.ID != h.id && who.Term > last {
			return true
		}
	}
	return h.lacking() && len(h.held) > 0
}

// Wait is how long a successor has to wait if nothing more becomes known. own is for a holder that does not say how
// long it may live, and for an unknown one.
func (h History) Wait(own time.Duration) (longest time.Duration) {
	waited := h.open()
	if h.doubt.Any {
		longest = max(own, h.doubt.wait)
	}
	if h.lacking() { // they knew how long to wait who have left
		longest, waited = max(longest, own), slices.Collect(maps.Values(h.held))
	}
	for _, r := range waited {
		if r.Handover <= 0 {
			longest = max(longest, own)
		} else {
			longest = max(longest, r.handover(maxHandover))
		}
	}
	return longest
}

// Highest is the highest term of another holding that was seen.
func (h History) Highest() (term uint64) {
	term = newest(maps.Values(h.held)).Term
	for who := range h.released {
		if who.ID != h.id {
			term = max(term, who.Term)
		}
	}
	return term
}

// Current reports whether the record of this holding is the last one.
func (h History) Current() bool { return h.own > h.Highest() && !h.Disowned() }

// Contested reports whether a holding of this term or a higher one is recorded, and not known to be over: it may have
// waited for the end of this one.
func (h History) Contested() bool {
	return slices.ContainsFunc(h.open(), func(r Record) bool { return r.Term >= h.own })
}

// Disowned reports whether this holding was released by somebody else: its guard.
func (h History) Disowned() bool {
	_, over := h.released[Holding{h.own, h.id}]
	return h.own > 0 && over
}

// Next is the term to record: above all that were seen or tried, and no less than the clock in microseconds, so that
// terms grow even if a ledger was lost. What does not count has no more say than a clock that is a little ahead.
func (h History) Next() uint64 {
	return min(max(h.own+1, h.above+1, h.Highest()+1, h.doubt.term+1, clock()), ceiling())
}
