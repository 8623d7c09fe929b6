package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

const (
	// unusable is for how long a contender leaves a slot alone whose ledger it could not use, and tries the others.
	unusable = 10 * time.Second
	// hesitation is for how long a waiter whose predecessor's ledger says nothing leaves a slot alone that is held: its
	// holder has recorded itself again by then.
	hesitation = time.Second
)

func (h *Classic) enter(ctx context.Context, now, successor bool) error {
	err := h.becomeReader(ctx)
	if err == nil {
		err = h.becomeKnown(ctx, now, successor)
	}
	if err != nil && !errors.Is(err, transport.ErrTaken) {
		h.skipUnusable(ctx, err)
	}
	return err
}

// skipUnusable leaves the slot alone for a while if it is its ledger that is in the way: other slots may be free.
func (h *Classic) skipUnusable(ctx context.Context, err error) {
	passing := slots.LostRace(err) || errors.Is(err, slots.ErrMustWait) || !h.Session.Usable() ||
		ctx.Err() != nil
	if h.Names.ID.Kind == lock.Semaphore && !passing {
		h.Skipped.Add(h.slot, unusable, lock.Errorf(lock.ErrUnknown, "%s", err.Error()))
	}
}

// becomeReader takes the reader's place. A ledger that does not exist says that nobody has held the slot, if it still
// does not exist once B is ours. Nor is an empty one entered before.
func (h *Classic) becomeReader(ctx context.Context) error {
	main := h.Session.Main()
	who := ledger.Visitor{ID: h.id, Above: h.highest, Yield: h.yieldToLine, Handle: h.Inbox.HandleQuestion}
	reader, err := ledger.Enter(ctx, main, h.t, who)
	h.Waiter.Taken = errors.Is(err, ledger.ErrSuccessor) && h.Waiter.Priority == 0
	if errors.Is(err, transport.ErrNoQueue) || errors.Is(err, ledger.ErrEmpty) {
		opened := make(chan error, 1)
		go func() { opened <- errors.Join(main.Open(ctx), h.noOther(ctx)) }() // for the second look
		taking := h.Claim.Take(ctx)
		if errors.Is(taking, transport.ErrTaken) && errors.Is(err, ledger.ErrEmpty) {
			h.Skipped.Add(h.slot, hesitation, transport.ErrTaken)
		}
		looked := <-opened
		if errors.Is(looked, names.ErrOtherType) {
			return looked // whichever berth has B
		}
		if err = errors.Join(taking, looked); err == nil {
			who.Owner, who.Yield = true, nil
			reader, err = ledger.Enter(ctx, main, h.t, who)
		}
	}
	if errors.Is(err, transport.ErrNoQueue) && h.Claim.Ours() {
		if err := h.exists(ctx); err != nil {
			return err // and there is no ledger either
		}
		// An empty ledger says nothing: a successor would wait for the longest lease.
		making, cancel := ledger.Finishing(ctx)
		defer cancel()
		reader, err = ledger.Make(making, main, h.t, who)
		h.made = time.Now()
		if err == nil && (h.Session.Returned() || h.unreleased[h.slot] > 0) {
			reader.Missing, reader.Empty = false, true
		}
	}
	if err == nil && !reader.Missing && !reader.Empty {
		delete(h.unreleased, h.slot)
	}
	if err != nil {
		return err
	}
	if reader.Missing || reader.Empty { // one that was made gets its record in any case
		looking, cancel := ledger.Finishing(ctx)
		defer cancel()
		err = h.onlyType(looking)
	}
	if err == nil {
		h.reader.Store(reader)
		h.Writer.WarnOfDoubt(h.t, reader.View().Doubt())
		return nil
	}
	leaving, cancel := ledger.Finishing(ctx)
	defer cancel()
	err = errors.Join(err, reader.Close(leaving))
	if !h.made.IsZero() {
		_ = h.Session.Side().Discard(leaving, h.t) // one that stays is waited for
	}
	return err
}

// noOther notices a mutex that has quorum queues, before a ledger is made. It proves nothing: see onlyType.
func (h *Classic) noOther(ctx context.Context) error {
	if h.Names.ID.Kind != lock.Mutex || h.Session.Apart() {
		return nil
	}
	other := h.Names.Other()
	a := names.Sign{Of: other, Queue: other.Exists(1)}
	if found, err := h.Session.ProbeOne(ctx, a.Queue); err == nil && found == transport.Present {
		return h.Names.Beside(a)
	}
	return nil
}

// yieldToLine lets the waiters in line go first: one that has been called is on its way to the reader's place.
func (h *Classic) yieldToLine(ctx context.Context) error {
	if h.Waiter.Behind(ctx) {
		return fmt.Errorf("%w; others are in line: %w", h.Names.ID.Full(), transport.ErrTaken)
	}
	return nil
}

// becomeKnown makes this holding known as the reader, where that may be. What a ledger that is missing or empty does not
// say, only B can: then it is claimed first. Where a command cannot be started at once, now has it leave, and successor
// has it stay although somebody holds the slot.
func (h *Classic) becomeKnown(ctx context.Context, now, successor bool) error {
	reader := h.reader.Load()
	known := reader.View()
	if !reader.Missing {
		if err := h.exists(ctx); err != nil {
			return err
		}
	}
	if reader.Empty {
		if !h.Claim.Ours() {
			if err := h.Claim.Take(ctx); err != nil {
				if errors.Is(err, transport.ErrTaken) {
					h.Skipped.Add(h.slot, hesitation, transport.ErrTaken)
				}
				return err
			}
		}
	}
	free := known.AllReleased() && !reader.Empty || reader.Missing
	if now && !free {
		return slots.ErrMustWait
	}
	if reader.Empty {
		return nil // it is recorded once the delay has passed
	}
	if !h.Claim.Ours() {
		// One that waits with B has records in hand, and what is to be seen is not all. A successor asks for the
		// sake of the question: under an alarm the record must not be the first that this connection publishes, which
		// gets through while nothing after it is answered.
		b, err := h.Claim.Presence(ctx, h.Session.ProbeOne)
		switch {
		case err != nil:
			return err
		case b != transport.Absent && (free || !successor):
			return fmt.Errorf("%s: %w", h, transport.ErrTaken)
		case !free && !successor:
			if err := h.Claim.Take(ctx); err != nil {
				return fmt.Errorf("%s: %w", h, err)
			}
		}
	}
	return h.recordTerm(ctx)
}

// writeApart writes a record over another connection. It can come once this holding is over, behind the record of a later
// holder: nobody has read of that one who wrote this, so it says the longest lease there is.
func (h *Classic) writeApart(ctx context.Context, who ledger.Holding) error {
	h.handover = max(h.handover, h.Env.MaxLease)
	return h.Writer.Write(ctx, h.t, h.written(who))
}

// recordTerm records this holding under a new term. Once the record has come back, the next berth in the reader's place
// reads it. It goes on for a moment when ctx has ended. A ledger that was made for this holding gets its record in any
// case.
func (h *Classic) recordTerm(ctx context.Context) error {
	reader := h.reader.Load()
	if ctx.Err() != nil && !reader.Missing {
		return ctx.Err()
	}
	ctx, cancel := ledger.Finishing(ctx)
	defer cancel()
	term, err := reader.Record(ctx, func(who ledger.Holding) error {
		h.handover = h.lease
		if known := reader.View(); !known.AllReleased() {
			// A holder that did not end cleanly may have had a longer lease than ours, and may come back to a slot that
			// we lose unnoticed.
			h.handover = max(h.lease, known.Wait(h.lease))
		}
		h.records, h.highest = append(h.records, who), max(h.highest, who.Term)
		if h.Session.Apart() {
			return h.writeApart(ctx, who)
		}
		return h.Writer.WriteOver(ctx, reader.Channel(), h.t, h.written(who))
	})
	if err != nil {
		return err
	}
	if h.Claim.Ours() {
		// The record says that this contender has had the reader's place, and no more than that. A release of it must
		// not make a ledger that says nothing look like one that does.
		if err := h.Claim.Prove(ctx); err != nil {
			return err
		}
	}
	h.term.Store(term)
	reader.Prune()
	if reader.Missing || reader.Empty || h.Session.Apart() {
		return nil
	}
	// Under an alarm of the broker a connection that has published gets no answer.
	if err := reader.Prove(ctx); err != nil {
		return h.judgeReader(err)
	}
	h.pruned()
	return nil
}

// pruned notes that the ledger has the last record alone of this holding: it was proven after the others were removed.
func (h *Classic) pruned() {
	if n := len(h.records); n > 0 && h.records[n-1] == h.holding() {
		h.records = h.records[n-1:]
	}
}

// judgeReader says what a failure of the reader means for the slot.
func (h *Classic) judgeReader(err error) error {
	switch {
	case errors.Is(err, lock.ErrLost):
		return h.Claim.Lose(err.Error())
	case errors.Is(err, lock.ErrUnreachable):
		return h.Claim.Dropped()
	}
	return err
}
