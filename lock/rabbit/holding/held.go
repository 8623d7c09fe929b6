package holding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Held is lock.Held: the place at a slot's door, then B of the slot, owned by the
// session's connection. Holder.Claim makes it.
//
// Its way: at the door before the command starts (turn.go), at the door while the
// command is young, B after that (settle.go), and B on another connection where the
// first one broke (reclaim.go).
type Held struct {
	*Holder
	*fate
	slot    int
	id      string // of this holding
	a, b, t string // a is empty for a mutex
	lease   time.Duration
	won     time.Time // when the place at the door was ours

	settled chan struct{} // closed when nothing runs in the background for the start; nil: nothing has
	over    chan struct{} // closed once Release has ended

	wasEmptied bool // the ledger had no record and was written again; used in Verify and Reclaim

	handover time.Duration // what the record says; written before the start only
	recorded bool          // this holding is recorded, and that is proven; written before the start only
	first    bool          // nobody has held the slot before; written before the start only
	mayStart bool          // nobody has to end any more; written before the start only
	ready    atomic.Bool   // the command may have started

	proven boottime.Instant // see Proven; written before the start only
	out    bool             // it waits away from the door; used before the start only
	alone  time.Time        // since when it waits with B, most of it away from the door; used before the start only

	mu     sync.Mutex
	term   uint64       // 0 until the ledger has it; guarded by mu
	door   *ledger.Door // nil once it was given back; guarded by mu
	claim  *claim       // nil: B is not ours; guarded by mu
	checks *checks      // on the present connection; guarded by mu
	made   bool         // the ledger was made for this holding; guarded by mu
}

var _ lock.Held = (*Held)(nil)

// claim is B of the slot.
type claim struct {
	won   time.Time
	watch *watch // nil: not yet
}

func (l *Holder) newHeld(slot int, id string) *Held {
	conn := l.Session.Conn()
	h := &Held{
		Holder: l, fate: newFate(), slot: slot, id: id, b: l.Names.Holds(slot), t: l.Names.Ledger(slot),
		lease: 2 * conn.Heartbeat(),
		over:  make(chan struct{}),
	}
	h.checks = &checks{held: h, channel: l.Session.Side()}
	if l.Names.ID.Kind.Administered() {
		h.a = l.Names.Exists(slot)
	}
	return h
}

// place returns what this holding has: the door, B, or both.
func (h *Held) place() (*ledger.Door, *claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.door, h.claim
}

func (h *Held) present() *checks {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checks
}

func (h *Held) conn() *transport.Conn { return h.present().channel.Conn() }

// String names the slot, for messages.
func (h *Held) String() string { return fmt.Sprintf("slot %d of %s", h.slot, h.Names.ID) }

// Slot implements lock.Held.
func (h *Held) Slot() int { return h.slot }

// Term implements lock.Held.
func (h *Held) Term() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

// Lease implements lock.Held. The broker looks every heartbeat interval whether
// it has heard from us and closes the connection after two looks without a
// sign: never earlier than two intervals after the last byte it received
// (https://www.rabbitmq.com/docs/heartbeats).
func (h *Held) Lease() time.Duration { return h.lease }

// WillName is what the wills of holdings are written under; see lock.NewWill.
const WillName = "rabbit"

// Handover implements lock.Held. There is no will while there is no term to release.
func (h *Held) Handover() lock.Handover {
	term := h.Term()
	if term == 0 {
		return lock.Handover{}
	}
	return lock.Handover{Will: lock.NewWill(WillName, h.will(term))}
}

func (h *Held) holding(term uint64) ledger.Holding { return ledger.Holding{Term: term, ID: h.id} }

// lose records proof of the loss, unless there was some before.
func (h *Held) lose(why string) error {
	return h.note(lock.Errorf(lock.ErrLost, "%s: %s", h, why))
}

// dropped notes that the connection is gone. That is not yet the loss of a slot whose
// command runs: until the deadline it can be claimed again, because whoever is next
// waits for our release, or for as long as we may live.
func (h *Held) dropped() error {
	why := fmt.Sprintf("the connection to %s %s", h.conn().Label(), h.conn().Why())
	if !h.ready.Load() {
		return h.lose(why)
	}
	return h.note(lock.Errorf(lock.ErrInDoubt, "%s: %s", h, why))
}

// Over reports whether Release has ended.
func (h *Held) Over() bool { return transport.IsClosed(h.over) }

// Release implements lock.Held.
func (h *Held) Release(ctx context.Context) error {
	if h.end() {
		return nil // released before
	}
	defer close(h.over)
	if h.settled != nil {
		stop := context.AfterFunc(ctx, h.conn().Abandon)
		<-h.settled
		stop()
	}
	h.Session.KeepSilent(false)
	h.Session.BePatient(false)
	h.dropUnfinishedClaim(ctx)
	unrecorded, err := h.giveBack(ctx)
	if err == nil {
		stop := context.AfterFunc(ctx, h.conn().Abandon)
		h.Settle()
		stop()
	}
	if err == nil {
		return unrecorded
	}
	h.conn().Abandon()
	<-h.conn().Done()
	h.Settle()
	if h.conn().Orderly() {
		return unrecorded // what was ours has gone with the connection, by the broker's own word
	}
	return fmt.Errorf("cannot confirm that %s was given back; the connection was closed, which frees it: %w", h, err)
}

// giveBack says that the tree is dead, and gives back what this holding has. Whoever is
// next starts as soon as it hears of the first, so the rest follows in the same write
// and is not waited for.
func (h *Held) giveBack(ctx context.Context) (unrecorded, err error) {
	door, claim := h.place()
	if !h.recorded {
		return nil, h.leave(ctx)
	}
	if h.conn().Broken() || h.Session.Conn() != h.conn() || h.Session.Apart() {
		if h.Session.Blocked() {
			h.conn().Abandon() // nothing is answered on it any more
		}
		unrecorded = h.recordRelease(ctx)
		h.Waiter.PassOn()
		return unrecorded, h.leave(ctx)
	}
	departure := transport.Departure{Queue: h.t}
	departure.Message, err = ledger.ReleaseMessage(h.holding(h.Term()))
	if err != nil {
		return err, h.leave(ctx)
	}
	lost := errors.Is(h.Cause(), lock.ErrLost)
	if claim != nil && !lost { // B may be somebody else's, which would close the channel
		departure.Remove = h.b
	}
	depart := h.Session.Main().Depart
	if door != nil && h.ready.Load() {
		depart = door.Depart // without a start, the records of those who may live have to go back
	}
	started := h.ready.Load()
	if door != nil && started {
		h.Waiter.Drop() // a baton would come before the door is open
		departure.Wake, departure.Call = h.Names.Line(), line.Call(h.slot)
	}
	found, err := depart(ctx, departure)
	if err != nil || found != transport.Present {
		unrecorded = h.recordRelease(ctx)
	}
	switch {
	case lost:
		err = h.unlessBlocked(func() error { return h.leave(ctx) })
	case door != nil:
		err = h.unlessBlocked(func() error { return door.Close(ctx) })
		if !started && !h.Waiter.PassOn() && (h.Names.ID.Kind != lock.Semaphore || door.Over()) {
			_, _ = h.Session.Deliver(ctx, h.Names.Line(), line.Call(h.slot))
		}
	case err == nil:
		_ = h.unlessBlocked(func() error {
			call(ctx, h.Session.Main(), h.t, h.Names.Line(), h.slot)
			return nil
		})
	}
	return unrecorded, err
}

// unlessBlocked runs f, which waits for an answer. Under an alarm the broker answers
// nothing any more on a connection that has just published: then it is cut, which frees
// what is left.
func (h *Held) unlessBlocked(f func() error) error {
	conn, done := h.conn(), make(chan struct{})
	go func() {
		select {
		case <-conn.Blocked():
			conn.Abandon()
		case <-done:
		}
	}()
	err := f()
	close(done)
	if transport.IsClosed(conn.Blocked()) {
		conn.Abandon()
		return nil
	}
	return err
}

// recordRelease records that the tree of this holding is dead, or that there was none.
func (h *Held) recordRelease(ctx context.Context) error {
	if !h.recorded {
		return nil
	}
	if err := h.Writer.Release(ctx, h.t, h.holding(h.Term())); err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	return nil
}

// leave gives back what this holding has, and says nothing. That B is gone or somebody
// else's is fine too.
func (h *Held) leave(ctx context.Context) error {
	door, claim := h.place()
	if h.conn().Broken() {
		return nil
	}
	if claim != nil {
		if claim.watch != nil {
			claim.watch.stop()
		}
		err := h.present().channel.Remove(ctx, h.b)
		if err != nil && !slots.LostRace(err) {
			return err
		}
	}
	if door != nil {
		return door.Close(ctx)
	}
	return nil
}

// dropUnfinishedClaim gives back what a reclaim has claimed that did not come to
// its end.
func (h *Held) dropUnfinishedClaim(ctx context.Context) {
	c := h.Session.Conn()
	if c == nil || c == h.conn() || c.Broken() { // nil: an attempt to connect has failed
		return
	}
	err := h.Session.Side().Remove(ctx, h.b)
	if err != nil && !errors.Is(err, transport.ErrTaken) {
		c.Abandon()
	}
}

// Settle waits for the goroutines of this slot. They end once they have their
// answer or the connection is closed; the caller sees to either.
func (h *Held) Settle() {
	_, claim := h.place()
	if claim != nil && claim.watch != nil {
		<-claim.watch.done
	}
	h.present().settle()
}
