package slots

import "time"

// Skipped are slots that a contender leaves alone for a while: Skipped{} is none. Its methods are called one at a time.
type Skipped map[int]skipped

type skipped struct {
	until time.Time
	why   error
}

// Add leaves a slot alone for d. why is transport.ErrTaken for one that was given back to its holder, and wraps
// lock.ErrUnknown for one whose ledger could not be used.
func (a Skipped) Add(slot int, d time.Duration, why error) {
	a[slot] = skipped{until: time.Now().Add(d), why: why}
}

// Why returns why the slot is left alone, or nil.
func (a Skipped) Why(slot int) error {
	if s := a[slot]; time.Now().Before(s.until) {
		return s.why
	}
	return nil
}
