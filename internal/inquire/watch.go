package inquire

import (
	"context"
	"errors"
	"time"

	"berth/lock"
)

// LeastInterval is how often a lock may be looked at.
const LeastInterval = 100 * time.Millisecond

// Seen is what a look has found.
type Seen struct {
	At      time.Time   // when it ended
	Status  lock.Status // of the last look that succeeded
	Changed []int       // slots that are different from the look before
	Err     error       // why this look has found nothing; Status is older then
	News    bool        // anything but times is different from the look before, as it is of the first
}

// Watch looks at the lock until ctx ends, a look every interval, and tells what each has found. That a broker cannot be
// reached ends nothing. It returns an error that wraps ErrDenied if the very first look was refused, otherwise nil.
func (q *Inquiry) Watch(ctx context.Context, interval time.Duration, tell func(Seen)) error {
	ticks := time.NewTicker(max(interval, LeastInterval))
	defer ticks.Stop()
	var last Seen
	for first := true; ; first = false {
		status, err := q.Inspector.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case first && errors.Is(err, lock.ErrDenied):
			return err
		}
		last = last.followedBy(status, err, first)
		tell(last)
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// followedBy returns what is seen next.
func (s Seen) followedBy(status lock.Status, err error, first bool) Seen {
	next := Seen{At: time.Now(), Status: status, Err: err}
	if err != nil {
		next.Status = s.Status
		next.News = first || s.Err == nil || s.Err.Error() != err.Error()
		return next
	}
	if !first {
		next.Changed = changed(s.Status, status)
	}
	next.News = first || s.Err != nil || len(next.Changed) > 0 || len(s.Status.Slots) != len(status.Slots) ||
		s.Status.Waiting != status.Waiting
	return next
}

// changed returns the slots of now that are different from before, or new.
func changed(before, now lock.Status) (slots []int) {
	known := map[int]essence{}
	for _, s := range before.Slots {
		known[s.Slot] = essenceOf(s)
	}
	for _, s := range now.Slots {
		if known[s.Slot] != essenceOf(s) {
			slots = append(slots, s.Slot)
		}
	}
	return slots
}

// essence is what a change of a slot is a change of: everything but times.
type essence struct {
	state                lock.SlotState
	holder, successor    lock.Report
	silent, hasSuccessor bool
	problem              string
}

func essenceOf(s lock.SlotStatus) essence {
	e := essence{state: s.State, silent: s.Holder == nil, hasSuccessor: s.HasSuccessor, problem: s.Problem}
	if s.Holder != nil {
		e.holder = timeless(*s.Holder)
	}
	if s.Successor != nil {
		e.successor = lock.Report{Holder: s.Successor.Holder, Host: s.Successor.Host, PID: s.Successor.PID}
	}
	return e
}

// timeless is a report without what changes while nothing happens.
func timeless(r lock.Report) lock.Report {
	r.Verified, r.Since = time.Time{}, time.Time{}
	return r
}
