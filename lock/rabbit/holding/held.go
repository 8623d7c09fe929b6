package holding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/claim"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
	"berth/lock/rabbit/will"
)

// Held is lock.Held: the reader's place of a slot, then B of the slot, owned by the session's connection. Holder.Claim
// and Holder.Succeed make it.
//
// It has the reader's place before the command starts (enter.go, wait.go) and while the command is young, B after
// that (takeb.go), and B on another connection where the first one broke (reclaim.go).
type Held struct {
	*Holder
	Claim   *claim.Claim
	slot    int
	id      string // of this holding
	a, b, t string // a is empty for a mutex
	lease   time.Duration

	term       atomic.Uint64                 // 0 until the ledger has the record, and that is proven
	reader     atomic.Pointer[ledger.Reader] // nil once it was given back
	takeBEnded chan struct{}                 // closed when takeB has ended; valid after the start
	over       chan struct{}                 // closed once Release has ended

	unclaimed context.Context // over once B was claimed after the start
	claimed   context.CancelFunc

	asked      int  // how often the owner of B was asked for it; used in Reclaim
	wasEmptied bool // the ledger had no record and was written again; used in Verify and Reclaim

	// Written before the start only.
	records  []ledger.Holding // that the ledger may have of this holding, in the order of their terms
	made     time.Time        // when the ledger was made for this holding; zero: it was not
	handover time.Duration    // what the record says
	proven   boottime.Instant // see Proven
	mayStart bool             // nobody has to end any more
	out      bool             // it waits away from the reader's place
	alone    time.Time        // since when it waits with B, most of it away from the reader's place; zero: it does not
}

var _ lock.Held = (*Held)(nil)

func (l *Holder) newHeld(slot int, id string) *Held {
	h := &Held{
		Holder: l, slot: slot, id: id, b: l.Names.Holds(slot), t: l.Names.Ledger(slot),
		lease:      2 * l.Session.Conn().Heartbeat(),
		takeBEnded: make(chan struct{}), over: make(chan struct{}),
	}
	h.unclaimed, h.claimed = context.WithCancel(context.Background())
	h.Claim = claim.New(h.String(), h.b, l.Session.Side(), h.handle, l.Log)
	if l.Names.ID.Kind.Administered() {
		h.a = l.Names.Exists(slot)
	}
	return h
}

// String names the slot, for messages.
func (h *Held) String() string { return fmt.Sprintf("slot %d of %s", h.slot, h.Names.ID) }

// Lost implements lock.Held.
func (h *Held) Lost() <-chan struct{} { return h.Claim.Lost() }

// Cause implements lock.Held.
func (h *Held) Cause() error { return h.Claim.Cause() }

// Wait waits for what runs beside the holding, once its connection is closed.
func (h *Held) Wait() { h.Claim.Wait() }

// Slot implements lock.Held.
func (h *Held) Slot() int { return h.slot }

// Term implements lock.Held.
func (h *Held) Term() uint64 { return h.term.Load() }

// Lease implements lock.Held. The broker looks every heartbeat interval whether it has heard from us and closes the
// connection after two looks without a sign: never earlier than two intervals after the last byte it received
// (https://www.rabbitmq.com/docs/heartbeats).
func (h *Held) Lease() time.Duration { return h.lease }

// Handover implements lock.Held. There is no will while there is no term to release.
func (h *Held) Handover() lock.Handover {
	who := h.holding()
	if who.Term == 0 {
		return lock.Handover{}
	}
	w := will.Will{Ledger: h.t, Holding: who, Early: !h.MayStart(), Line: h.Names.Line(), Slot: h.slot}
	handover := w.Handover(h.Session.Dialer)
	handover.Slot = h.slot
	return handover
}

func (h *Held) holding() ledger.Holding { return ledger.Holding{Term: h.Term(), ID: h.id} }

// exists finds out whether the slot is there. After the claim of B or of the reader's place: who removes a slot looks
// at these after that.
func (h *Held) exists(ctx context.Context) error {
	if h.a == "" {
		return nil
	}
	return slots.Find(ctx, h.Session, h.Claim.Side(), h.a)
}

// Over reports whether Release has ended.
func (h *Held) Over() bool { return transport.IsClosed(h.over) }

// Release implements lock.Held.
func (h *Held) Release(ctx context.Context) error {
	if h.Claim.End() {
		return nil // released before
	}
	defer close(h.over)
	releasing, cancel := ledger.Releasing(ctx)
	defer cancel()
	if h.Claim.Started() {
		abandon := func() { h.Claim.Conn().Abandon() }
		defer context.AfterFunc(ctx, abandon)()
		stop := context.AfterFunc(releasing, abandon) // the claim of B may have gone into a silent connection
		<-h.takeBEnded
		stop()
	}
	h.Session.KeepSilent(false)
	h.dropUnfinishedClaim(releasing)
	h.remember()
	unrecorded, err := h.giveBack(ctx, releasing)
	if err != nil {
		h.Claim.Conn().Abandon()
		<-h.Claim.Conn().Done()
	}
	h.Claim.Wait()
	if err == nil || h.Claim.Conn().Orderly() {
		return unrecorded // what was ours has gone with the connection, by the broker's own word
	}
	return fmt.Errorf("cannot confirm that %s was given back; the connection was closed, which frees it: %w", h, err)
}

// remember keeps whom a contender that gives up its place has waited for.
func (h *Held) remember() {
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

// giveBack says that the tree is dead, within releasing, and gives back what this holding has. The successor starts as
// soon as it hears of the first, so the rest follows in the same write and is not waited for.
func (h *Held) giveBack(ctx, releasing context.Context) (unrecorded, err error) {
	if h.out && !h.Session.Blocked() { // what is in hand goes back before B is free
		_ = h.reader.Load().Close(releasing)
	}
	if h.Term() == 0 {
		unrecorded = h.recordRelease(ctx) // what was recorded all the same makes others wait
		return unrecorded, h.leave(ctx)
	}
	if h.Claim.Conn().Broken() || h.Session.Conn() != h.Claim.Conn() || h.Session.Apart() {
		if h.Session.Blocked() {
			h.Claim.Conn().Abandon() // nothing is answered on it any more
		}
		unrecorded = h.recordRelease(ctx)
		h.Waiter.PassOn()
		return unrecorded, h.leave(ctx)
	}
	unproven := slices.DeleteFunc(slices.Clone(h.records), func(who ledger.Holding) bool { return who == h.holding() })
	unrecorded = h.release(ctx, unproven)
	batch := transport.Batch{Queue: h.t, Message: h.holding().Released(!h.MayStart()), First: h.Leaving}
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
			return h.leave(ctx)
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
func (h *Held) recordRelease(ctx context.Context) error {
	if err := h.release(ctx, h.records); err != nil {
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

// release records releases of this holding, the newest first. Where it has not seen everybody else end, each speaks of
// itself alone: with it, a ledger that has lost a record does not look as if nobody could be alive.
func (h *Held) release(ctx context.Context, records []ledger.Holding) (err error) {
	for _, who := range slices.Backward(records) {
		if e := h.Writer.Release(ctx, h.t, who, !h.MayStart()); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", h, e))
		}
	}
	return err
}

// leave gives back what this holding has, and says nothing.
func (h *Held) leave(ctx context.Context) error {
	err := h.Claim.GiveBack(ctx)
	if reader := h.reader.Load(); reader != nil && err == nil && !h.Claim.Conn().Broken() {
		err = reader.Close(ctx)
	}
	return err
}

// dropUnfinishedClaim gives back what a reclaim has claimed that did not come to its end.
func (h *Held) dropUnfinishedClaim(ctx context.Context) {
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
