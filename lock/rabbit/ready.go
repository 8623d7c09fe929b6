package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
)

// retryPause lies between attempts at what fails in passing: a claim of a queue
// that is just going, a connection to a broker that is just starting.
const (
	retryPause        = 25 * time.Millisecond
	longestRetryPause = 500 * time.Millisecond
)

// releaseRecordTimeout bounds the attempts to record a release.
const releaseRecordTimeout = 2 * time.Second

// givenBack is for how long a newcomer leaves a slot alone that it has given
// back to its holder.
const givenBack = time.Second

// unusable is for how long a contender leaves a slot alone whose ledger it could
// not use, and tries the others.
const unusable = 10 * time.Second

// Ready implements lock.Held: it waits until the last holder's tree is known to
// be dead, or has had the time to be, and records this holding under a new term.
//
// A successor that only waits gives the slot back if the last holder asks for
// it; Ready then returns lock.ErrFull. Once it has begun to record its own
// holding it does not, because by then the last holder's deadline has passed.
func (h *held) Ready(ctx context.Context) error {
	if err := h.Cause(); err != nil {
		return err
	}
	if h.ready {
		return nil // the command is started again
	}
	r := h.ledger
	err := h.succeed(ctx, r)
	if err != nil || r.pushed != nil {
		// Whatever ctx says: records that stay unacknowledged on this connection
		// would be missing to the next one who reads.
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if end := r.putBack(closing); err == nil {
			err = end
		}
	}
	if err != nil {
		h.l.avoidUnusable(ctx, h.slot, err)
		return err
	}
	h.ready = true
	return nil
}

// succeed reads the ledger, waits, records this holding, and makes sure that B
// is still ours. In this order: if B has been lost, then either whoever has it
// now finds the record, or we find out that we have it no more.
func (h *held) succeed(ctx context.Context, r *reader) error {
	if h.Term() == 0 {
		if err := r.rest(ctx); err != nil {
			return err
		}
		if err := h.awaitLastHolder(ctx, r); err != nil {
			return err
		}
		if err := h.enter(ctx, r); err != nil {
			return err
		}
	}
	err := h.judge(h.l.claims.find(ctx, h.b), "its queue is gone")
	if err == nil {
		r.forget()
	}
	return err
}

// enter records this holding.
func (h *held) enter(ctx context.Context, r *reader) error {
	h.mu.Lock()
	h.founded = r.fresh
	h.mu.Unlock()
	h.handover = h.lease
	if !r.known.over() {
		// Who did not end in order may have had a longer lease than ours, and
		// may come back to a slot that we lose unnoticed.
		h.handover = max(h.lease, r.known.wait(h.lease))
	}
	term := r.known.next()
	if err := h.write(ctx, h.heldRecord(term)); err != nil {
		return err
	}
	h.mu.Lock()
	h.term = term
	h.mu.Unlock()
	return nil
}

func (h *held) heldRecord(term uint64) record {
	return record{
		Record: recordHeld, Term: term, Handover: h.handover.Milliseconds(),
		Host: h.l.host, PID: h.l.pid,
	}
}

// awaitLastHolder returns nil as soon as the command may start.
func (h *held) awaitLastHolder(ctx context.Context, r *reader) error {
	if h.l.vacant(r) {
		return nil
	}
	// What comes later can say that it takes longer: a record that another
	// reader had in hand is back in the ledger only once that reader is gone.
	left := func() time.Duration { return r.known.wait(h.lease) - time.Since(h.won) }
	h.l.log.Info("waiting for the last holder's release", "slot", h.slot, "term", r.known.newest.Term,
		"host", r.known.newest.Host, "at_most", left().Round(time.Millisecond).String())
	if err := r.follow(ctx); err != nil {
		return err
	}
	enough := time.NewTimer(left())
	defer enough.Stop()
	for !r.known.over() {
		select {
		case d, open := <-r.pushed:
			if !open {
				return fmt.Errorf("reading the ledger of slot %d of %s was cut off: %w", h.slot, h.l.id, lock.ErrUnknown)
			}
			r.take(d)
			enough.Reset(left())
		case term := <-h.reclaims:
			if term != 0 && term == r.known.newest.Term {
				h.returned = true
				h.l.avoid(h.slot, givenBack, errTaken)
				return lock.Errorf(lock.ErrFull, "slot %d of %s: its holder lives and has asked for it back", h.slot, h.l.id)
			}
		case <-enough.C:
			return nil
		case <-h.Lost():
			return h.Cause()
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for the last holder of slot %d of %s: %w", h.slot, h.l.id, ctx.Err())
		}
	}
	return nil
}

// release records that the tree of this holding is dead, if there was one. Who
// did not become ready says nothing: the holder before may have its slot back
// and its command running, and successors take the newest record's release for
// the end of all.
func (h *held) release(ctx context.Context) error {
	if !h.ready {
		return nil
	}
	// Not worth a long wait: successors do without it, after the handover
	// delay, and B is still to be given back.
	bounded, cancel := context.WithTimeout(ctx, releaseRecordTimeout)
	defer cancel()
	err := h.write(bounded, record{Record: recordReleased, Term: h.Term()})
	if errors.Is(err, lock.ErrDenied) {
		return nil // said when the slot was won
	}
	return err
}
