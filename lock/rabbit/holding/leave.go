package holding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/transport"
	"berth/lock/rabbit/will"
)

// endTakeB waits for the end of takeB, whose claim may have gone into a silent connection.
func (h *Classic) endTakeB(releasing context.Context) {
	if h.Claim.Started() {
		defer context.AfterFunc(releasing, func() { h.Claim.Conn().Abandon() })()
		<-h.takeBEnded
	}
}

// remember keeps whom a contender that gives up its place has waited for.
func (h *Classic) remember() {
	reader := h.reader.Load()
	if reader == nil || h.Claim.Started() {
		return
	}
	if known := reader.View(); known.Unsettled() {
		if h.unreleased == nil {
			h.unreleased = make(map[int]time.Duration)
		}
		h.unreleased[h.slot] = known.Wait(h.lease)
	}
}

// resign ends what goes on, and gives up the slot. The successor starts as soon as it hears that the tree is dead, so
// the rest follows in the same write and is not waited for.
func (h *Classic) resign(ctx, releasing context.Context) (unrecorded, err error) {
	h.endTakeB(releasing)
	h.Session.KeepSilent(false)
	h.dropUnfinishedClaim(releasing)
	h.remember()
	if h.out && !h.Session.Blocked() { // what is in hand goes back before B is free
		_ = h.reader.Load().Close(releasing)
	}
	if h.Term() == 0 {
		unrecorded = h.recordRelease(ctx) // what was recorded all the same makes others wait
		return unrecorded, h.vacate(ctx)
	}
	if h.Claim.Conn().Broken() || h.Session.Conn() != h.Claim.Conn() || h.Session.Apart() {
		if h.Session.Blocked() {
			h.Claim.Conn().Abandon() // nothing is answered on it any more
		}
		unrecorded = h.recordRelease(ctx)
		h.Waiter.PassOn()
		return unrecorded, h.vacate(ctx)
	}
	unproven := slices.DeleteFunc(slices.Clone(h.records), func(who ledger.Holding) bool { return who == h.holding() })
	unrecorded = h.releaseAll(ctx, unproven)
	batch := transport.Batch{Queue: h.t, Message: h.holding().Released(!h.MayStart()), First: h.putBack()}
	reader, lost := h.reader.Load(), errors.Is(h.Claim.Cause(), lock.ErrLost)
	if h.Claim.Ours() && !lost { // B may be somebody else's, which would close the channel
		batch.Remove = h.b
	}
	publish, gone := h.Session.Main().Publish, false
	if reader != nil && h.Claim.Started() { // otherwise the records of those who may live have to go back
		publish, gone = reader.Leave, true
		h.Waiter.Drop() // a baton would come before the reader's place is free
		batch.Wake, batch.Call = h.Names.Line(), line.Call(h.slot)
	}
	found, failure := publish(releasing, batch)
	if failure != nil {
		h.Claim.Conn().Abandon() // which frees what is ours; it may have waited behind a proof that is not answered
	}
	if failure != nil || found != transport.Present {
		unrecorded, gone = h.recordRelease(ctx), false
	}
	return unrecorded, h.Claim.Conn().UnlessBlocked(func() error {
		switch {
		case lost:
			h.Waiter.PassOn()
			return h.vacate(ctx)
		case reader == nil && failure == nil:
			will.Call(ctx, h.Session.Main(), h.t, h.Names.Line(), h.slot)
			fallthrough
		case reader == nil || gone:
			return nil
		}
		err := reader.Close(ctx)
		call := !h.Claim.Started() && !h.Waiter.PassOn()
		if h.Names.ID.Kind == lock.Semaphore { // the successors for other slots remove batons
			call = !h.Claim.Started() && reader.View().AllReleased()
		}
		if queue := h.Names.Line(); call && queue != "" {
			_, _ = h.Session.Lender.Publish(ctx, queue, line.Call(h.slot))
		}
		return err
	})
}

// recordRelease records that the tree of this holding is dead, or that there was none, whatever was recorded of it, and
// has a waiter look at the slot if there is no successor.
func (h *Classic) recordRelease(ctx context.Context) error {
	if err := h.releaseAll(ctx, h.records); err != nil {
		return err
	}
	if h.Claim.Started() {
		_ = h.Session.Lender.Lend(ctx, func(c *transport.Channel) error {
			will.Call(ctx, c, h.t, h.Names.Line(), h.slot)
			return nil
		})
	}
	return nil
}

// releaseAll records releases of this holding, the newest first. Where it has not seen everybody else end, each speaks of
// itself alone: with it, a ledger that has lost a record does not look as if nobody could be alive.
func (h *Classic) releaseAll(ctx context.Context, records []ledger.Holding) (err error) {
	for _, who := range slices.Backward(records) {
		if e := h.Writer.Release(ctx, h.t, who, !h.MayStart()); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", h, e))
		}
	}
	return err
}

// vacate gives back what this holding has, and says nothing.
func (h *Classic) vacate(ctx context.Context) error {
	err := h.Claim.GiveBack(ctx)
	if reader := h.reader.Load(); reader != nil && err == nil && !h.Claim.Conn().Broken() {
		err = reader.Close(ctx)
	}
	return err
}

// dropUnfinishedClaim gives back what a reclaim has claimed that did not come to its end.
func (h *Classic) dropUnfinishedClaim(ctx context.Context) {
	c := h.Session.Conn() // nil: an attempt to connect has failed
	inDoubt := h.Claim.Started() && h.Claim.Cause() != nil && !h.Claim.Ours()
	if c == nil || c == h.Claim.Conn() && !inDoubt || c.Broken() {
		return
	}
	err := h.Session.Side().Remove(ctx, h.b)
	if err != nil && !errors.Is(err, transport.ErrTaken) {
		c.Abandon()
	}
}
