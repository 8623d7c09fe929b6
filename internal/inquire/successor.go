package inquire

import (
	"context"
	"errors"
	"time"

	"berth/lock"
	"berth/supervisor"
)

// successorPoll is how often a slot is looked at until the next one runs in it.
const successorPoll = 100 * time.Millisecond

// Successor is who runs in a slot after somebody has stepped down.
type Successor struct {
	Holder lock.Report
	After  time.Duration // since the other one was asked
	Gap    time.Duration // how long the slot was nobody's, at most
}

// AwaitSuccessor blocks until a command runs in the slot whose holder was asked to step down, in another holding: that
// of another berth, or of the same one if nobody else has come. That nothing is reached for a while is waited out.
// Errors: ErrAbsent if the slot was removed, ErrUnknown if ctx has ended, ErrDenied.
func (q *Inquiry) AwaitSuccessor(ctx context.Context, asked Asked) (Successor, error) {
	ticks := time.NewTicker(successorPoll)
	defer ticks.Stop()
	for {
		began := time.Now()
		now, err := q.Inspector.Look(ctx)
		if errors.Is(err, lock.ErrDenied) {
			return Successor{}, err
		}
		slot := find(now, asked.Slot)
		switch {
		case err != nil:
		case slot == nil:
			return Successor{}, lock.Errorf(lock.ErrAbsent, "%s was removed meanwhile", q.subject(asked.Slot))
		case slot.Holder == nil:
		case asked.isHolder(*slot.Holder):
			asked.seen = began
		case slot.Holder.State == string(supervisor.Running):
			return asked.succeededBy(*slot.Holder), nil
		}
		select {
		case <-ctx.Done():
			return Successor{}, lock.Errorf(lock.ErrUnknown, "the holder (%s) agreed, but no command runs after it "+
				"in %s yet", Who(asked.Holder), q.subject(asked.Slot))
		case <-ticks.C:
		}
	}
}

// find returns what is known of a slot, nil if it does not exist.
func find(now lock.Status, slot int) *lock.SlotStatus {
	for i := range now.Slots {
		if now.Slots[i].Slot == slot {
			return &now.Slots[i]
		}
	}
	return nil
}

// isHolder reports whether the slot is still held as it was when its holder was asked.
func (a Asked) isHolder(r lock.Report) bool {
	return a.Holder != nil && r.Holder == a.Holder.Holder && r.Term == a.Holder.Term
}

// succeededBy compares times: what was seen by this host's clock, and what the successor says by its own, which counts
// where the clocks agree.
func (a Asked) succeededBy(r lock.Report) Successor {
	now := time.Now()
	won := now
	if r.Since.After(a.seen) && r.Since.Before(now) {
		won = r.Since
	}
	return Successor{Holder: r, After: now.Sub(a.at), Gap: won.Sub(a.seen)}
}
