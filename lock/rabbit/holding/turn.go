package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// secondLook is after how long a ledger without a record is read again.
const secondLook = 50 * time.Millisecond

// atDoor takes the place at the door. A ledger that does not exist says that nobody has
// held the slot, if it still does not exist once B is ours.
func (h *Held) atDoor(ctx context.Context) (err error) {
	main := h.Session.Main()
	h.door, err = ledger.Enter(ctx, main, h.t, h.id)
	if err == nil && h.door.Empty {
		// Who gives the door back lets the next one in a moment before its records.
		if err = h.door.Close(ctx); err == nil {
			err = transport.Sleep(ctx, secondLook)
		}
		if err == nil {
			h.door, err = ledger.Enter(ctx, main, h.t, h.id)
		}
	}
	h.won = time.Now()
	if !errors.Is(err, transport.ErrNoQueue) {
		return err
	}
	err = main.ClaimAndFind(ctx, h.b, h.t)
	if err == nil || errors.Is(err, transport.ErrNoQueue) {
		h.mu.Lock()
		h.claim = &claim{won: time.Now()}
		h.mu.Unlock()
	}
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		if err := h.exists(ctx); err != nil {
			return err // and there is no ledger either
		}
		h.made = true
		h.door, err = ledger.Make(ctx, main, h.t, h.id)
	case err == nil:
		if h.door, err = ledger.Enter(ctx, main, h.t, h.id); err == nil {
			err = h.proveB(ctx)
		}
	}
	h.won = time.Now()
	if err == nil && h.door.Missing && h.Session.Returned() {
		h.door.Missing, h.door.Empty = false, true
	}
	return err
}

// exists finds out whether the slot is there. After the claim of B or of the door: who
// removes a slot looks at these after that.
func (h *Held) exists(ctx context.Context) error {
	if h.a == "" {
		return nil
	}
	return h.Session.Side().Find(ctx, h.a)
}

// entry says what is to become of a contender that stands at the door of a slot in which
// a command cannot be started at once.
type entry int

// The entries.
const (
	atOnce  entry = iota // it leaves
	mayWait              // it stays if nobody holds the slot any more
	asNext               // it stays
)

// enter makes this holding known at the door, where that may be. What a ledger that is
// missing or empty does not say, only B can: then it is claimed first.
func (h *Held) enter(ctx context.Context, how entry) error {
	if !h.door.Missing {
		if err := h.exists(ctx); err != nil {
			return err
		}
	}
	switch door := h.door; {
	case door.Missing:
		// B was claimed before the ledger was made.
	case door.Empty:
		if known := door.Known(); known.Lost() {
			h.warnOfPolicy(h.t, "it has a release without the record that it belongs to")
		}
		if h.claim == nil {
			if err := h.claimB(ctx); err != nil {
				if errors.Is(err, transport.ErrTaken) {
					h.Avoided.Add(h.slot, hesitation, transport.ErrTaken)
				}
				return err
			}
		}
		if how == atOnce {
			return slots.ErrMustWait
		}
		return nil // it is recorded once the delay has passed
	case door.Over():
		// One that waits with B has records in hand, and what is to be seen is not all.
		if h.claim == nil {
			if b, err := h.presence(ctx); err != nil {
				return err
			} else if b != transport.Absent {
				return fmt.Errorf("%s: %w", h, transport.ErrTaken)
			}
		}
	case how == atOnce:
		return slots.ErrMustWait
	case how == mayWait:
		if b, err := h.presence(ctx); err != nil || b != transport.Absent {
			return fmt.Errorf("%s: %w", h, transport.ErrTaken)
		}
		if err := h.claimB(ctx); err != nil {
			return fmt.Errorf("%s: %w", h, err)
		}
	default:
		// Not for the answer: under an alarm the record must not be the first that this
		// connection publishes, which gets through while nothing after it is answered.
		if _, err := h.presence(ctx); err != nil {
			return err
		}
	}
	return h.record(ctx)
}

// presence is what is known of B. Under an alarm a probe may not be answered; a look is,
// and the broker logs it where B is somebody's.
func (h *Held) presence(ctx context.Context) (transport.Presence, error) {
	if found, err := h.Session.Deliver(ctx, h.b, transport.Message{}); err == nil {
		return found, nil
	}
	switch err := h.Session.Side().Find(ctx, h.b); {
	case errors.Is(err, transport.ErrNoQueue):
		return transport.Absent, nil
	case err == nil, errors.Is(err, transport.ErrTaken):
		return transport.Present, nil
	default:
		return transport.Unknown, err
	}
}

// record records this holding under a new term. Once the record has come back, whoever
// takes the place at the door from us reads it.
func (h *Held) record(ctx context.Context) error {
	door, _ := h.place()
	term, err := door.Record(ctx, func(who ledger.Holding) error {
		h.handover = h.lease
		if !door.Over() {
			// A holder that did not end in order may have had a longer lease than ours, and
			// may come back to a slot that we lose unnoticed.
			h.handover = max(h.lease, door.Wait(h.lease))
		}
		return h.Writer.Once(ctx, h.t, who.Held(h.handover, h.Host, h.PID))
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.term = term
	h.mu.Unlock()
	if door.Missing || door.Empty {
		// The record says that this contender has had the door, and no more than that. A
		// release of it must not make a ledger that says nothing look like one that does.
		if err := h.proveB(ctx); errors.Is(err, lock.ErrDenied) {
			return err
		} else if err := h.judge(err, "its queue is gone"); err != nil {
			return err
		}
	}
	h.recorded, h.first = true, door.Missing
	door.Prune()
	if door.Missing || door.Empty || h.Session.Apart() {
		return nil
	}
	// Under an alarm of the broker a connection that has published gets no answer.
	return h.judgeDoor(door.Prove(ctx))
}

// MayStart reports whether nobody has to end before the command may start.
func (h *Held) MayStart() bool {
	door, _ := h.place()
	return h.mayStart || h.recorded && (h.first || door.Over())
}

// Proven implements lock.Held.
func (h *Held) Proven() boottime.Instant { return h.proven }

// ErrStepBack says that a waiter of a higher priority is to be next.
var ErrStepBack = errors.New("a waiter of a higher priority is next")

// errElsewhere says that another slot may be free.
var errElsewhere = errors.New("another slot may be free")

// Stand waits at the door until the command may start. Errors: lock.ErrLost,
// lock.ErrUnreachable, lock.ErrUnknown, that of ctx, ErrStepBack, or that another slot
// may be free. The caller releases it then.
func (h *Held) Stand(ctx context.Context) error { return h.stand(ctx, true) }

// Ready implements lock.Held. A successor that has claimed B and only waits gives it back
// if the last holder asks for it; Ready then returns lock.ErrFull.
func (h *Held) Ready(ctx context.Context) error {
	if err := h.Cause(); err != nil {
		return err
	}
	if h.ready.Load() {
		return nil // the command is started again
	}
	if err := h.stand(ctx, false); err != nil {
		return err
	}
	h.ready.Store(true)
	h.Session.KeepSilent(true)
	h.Session.BePatient(true)
	h.settled = make(chan struct{})
	go h.settle(h.door)
	return nil
}

func (h *Held) stand(ctx context.Context, asNext bool) error {
	w := wait{Held: h, door: h.door, asNext: asNext}
	since, err := w.await(ctx)
	if err == nil {
		h.mayStart, h.proven = true, since
		return nil
	}
	if cause := h.Cause(); ctx.Err() != nil {
		err = w.gaveUp(ctx) // which may have cut the connection
	} else if cause != nil {
		err = cause
	}
	if !errors.Is(err, ErrStepBack) && !errors.Is(err, errElsewhere) {
		h.avoidUnusable(ctx, h.slot, err)
	}
	return err
}
