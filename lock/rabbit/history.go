package rabbit

import "time"

// holding is one holding of a slot, as records name it. The term alone does not:
// after a ledger has lost its newest record, another holding can have the same.
type holding struct {
	term uint64
	id   string
}

// history is what was seen of a slot's ledger. Its zero value has seen nothing.
type history struct {
	id       string             // of the holding that reads; "" for one that will not be recorded
	held     map[holding]record // of others
	released map[holding]bool
	own      uint64 // the highest term that is recorded under id; 0: none
}

// add notes a record. The same one twice changes nothing.
func (h *history) add(r record) {
	who := holding{r.Term, r.ID}
	switch {
	case r.Record == recordReleased:
		if h.released == nil {
			h.released = make(map[holding]bool)
		}
		h.released[who] = true
	case r.ID != "" && r.ID == h.id:
		h.own = max(h.own, r.Term)
	default:
		if h.held == nil {
			h.held = make(map[holding]record)
		}
		h.held[who] = r
	}
}

// newest returns the record of the last other holder; its Term is 0 if there is none.
func (h *history) newest() (last record) {
	for _, r := range h.held {
		if r.Term > last.Term {
			last = r
		}
	}
	return last
}

// over reports whether the trees of all other holders are known to be dead. Each
// has to be released by itself: the holder of a higher term may have been
// recorded and have lost the slot again before it started anything.
func (h *history) over() bool {
	for who := range h.held {
		if !h.released[who] {
			return false
		}
	}
	return len(h.held) > 0
}

// orphaned reports whether there is a release without the record that it
// belongs to. That one was in somebody's hand, or the ledger does not keep what is
// written to it.
func (h *history) orphaned() bool {
	for who := range h.released {
		if _, found := h.held[who]; !found && who.id != h.id {
			return true
		}
	}
	return false
}

// lost reports whether the newest release is without the record that it belongs to,
// which the ledger does not keep then. An older one has come late, after a successor
// had removed that record.
func (h *history) lost() bool {
	newest := h.newest().Term
	for who := range h.released {
		if _, found := h.held[who]; !found && who.id != h.id && who.term > newest {
			return true
		}
	}
	return false
}

// joined reports whether somebody is recorded who was not before, and is not
// released.
func (h *history) joined(before history) bool {
	for who := range h.held {
		if _, found := before.held[who]; !found && !h.released[who] {
			return true
		}
	}
	return false
}

// wait is how long a successor has to wait if nothing more becomes known. own is
// for a holder that does not say how long it may live, and for an unknown one.
func (h *history) wait(own time.Duration) (longest time.Duration) {
	if len(h.held) == 0 {
		return own
	}
	for who, r := range h.held {
		switch {
		case h.released[who]:
		case r.Handover <= 0:
			longest = max(longest, own)
		default:
			longest = max(longest, min(time.Duration(r.Handover)*time.Millisecond, longestHandover))
		}
	}
	return longest
}

// highest is the highest term of another holding that was seen.
func (h *history) highest() (term uint64) {
	for who := range h.held {
		term = max(term, who.term)
	}
	for who := range h.released {
		if who.id != h.id {
			term = max(term, who.term)
		}
	}
	return term
}

// current reports whether the record of this holding is the last one.
func (h *history) current() bool { return h.own > h.highest() && !h.gone(h.own) }

// gone reports whether a term of this holding is released.
func (h *history) gone(term uint64) bool { return h.released[holding{term, h.id}] }

// next is the term to record. Terms begin at the clock in microseconds, so that
// they grow even if a ledger was lost. So they do after a release without its
// record: records that were not seen may have higher terms.
func (h *history) next() uint64 {
	last := max(h.own, h.highest())
	if last == 0 || h.orphaned() {
		return max(last+1, uint64(time.Now().UnixMicro()))
	}
	return last + 1
}
