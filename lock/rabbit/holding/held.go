package holding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Held is lock.Held: B of one slot, owned by the session's connection. Holder.Claim
// makes it.
//
// watch and checks are replaced when the slot is reclaimed on another connection;
// that happens inside Reclaim, with nothing else under way.
type Held struct {
	*Holder
	*fate
	slot    int
	a, b, t string // a is empty for a mutex
	lease   time.Duration
	won     time.Time // when B was ours

	ledger *ledger.Reader // of what was there when the slot was won; used in Ready
	watch  *watch         // of B
	checks *checks
	over   chan struct{} // closed once Release has ended

	wasEmptied bool // the ledger had no record and was written again; used in Verify and Reclaim

	handover  time.Duration // what the record says; written in Ready only
	givenBack bool          // to the last holder; written in Ready only
	ready     bool          // the command may start; written in Ready only

	mu      sync.Mutex
	term    uint64 // 0 until the ledger has it; guarded by mu
	created bool   // the ledger was created for this holding; guarded by mu
}

var _ lock.Held = (*Held)(nil)

// hold makes a Held of a slot whose B has just been claimed.
func (l *Holder) hold(ctx context.Context, slot int, r *ledger.Reader) (*Held, error) {
	claims := l.Session.Claims()
	h := &Held{
		Holder: l, fate: newFate(), slot: slot, b: l.Names.Holds(slot), t: l.Names.Ledger(slot),
		lease:  2 * claims.Conn().Heartbeat(),
		won:    time.Now(),
		ledger: r,
		over:   make(chan struct{}),
	}
	if l.Names.ID.Kind.Administered() {
		h.a = l.Names.Exists(slot)
	}
	consumer, err := consume(ctx, claims, h.b, true)
	if err != nil {
		return nil, err
	}
	h.observe(consumer, claims.Conn().PatientChannel())
	return h, nil
}

// observe has the slot watched, on a channel of the connection that owns B, and
// verified on that connection.
func (h *Held) observe(consumer *transport.Consumer, channel *transport.Channel) {
	h.checks = &checks{held: h, channel: channel.Conn().PatientChannel()}
	h.watch = &watch{held: h, channel: channel, requests: make(chan uint64, 1), done: make(chan struct{})}
	go h.watch.run(consumer)
}

func (h *Held) conn() *transport.Conn { return h.checks.channel.Conn() }

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
	return lock.Handover{Will: lock.NewWill(WillName, h.Writer.Will(h.t, h.holding(term)))}
}

func (h *Held) holding(term uint64) ledger.Holding { return h.ledger.Known.Holding(term) }

// lose records proof of the loss, unless there was some before.
func (h *Held) lose(why string) error {
	return h.note(lock.Errorf(lock.ErrLost, "%s: %s", h, why))
}

// dropped notes that the connection is gone. That is not yet the loss of the
// slot: until the deadline it can be claimed again, because whoever claims it
// meanwhile waits for our release, or for as long as we may live.
func (h *Held) dropped() error {
	why := fmt.Sprintf("the connection to %s %s", h.conn().Label(), h.conn().Why())
	if h.Term() == 0 {
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
	// The record goes first and is not waited for: a successor that wins B before
	// the record is there has it pushed.
	recorded := make(chan error, 1)
	go func() { recorded <- h.recordRelease(ctx) }()
	if !h.givenBack {
		h.Waiter.StepAside()
	}
	h.dropUnfinishedClaim(ctx)
	err := h.giveBack(ctx)
	switch {
	case err != nil:
	case h.givenBack:
		h.Waiter.Leave()
	default:
		h.Waiter.HandOn(ctx, h.slot)
	}
	if err == nil {
		err = h.tidy(ctx)
	}
	unrecorded := <-recorded
	if err == nil {
		return unrecorded
	}
	h.conn().Abandon()
	<-h.conn().Done()
	h.Settle()
	if h.conn().Orderly() {
		return unrecorded // B has gone with the connection, by the broker's own word
	}
	return fmt.Errorf("cannot confirm that %s was given back; the connection was closed, which frees it: %w", h, err)
}

// recordRelease records that the tree of this holding is dead, if there was one. A
// holding that did not become ready says nothing: the holder before may have its slot
// back and its command running.
func (h *Held) recordRelease(ctx context.Context) error {
	if !h.ready {
		return nil
	}
	if err := h.Writer.Release(ctx, h.t, h.holding(h.Term())); err != nil {
		return fmt.Errorf("%s: %w", h, err)
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
	remover := c.Channel()
	err := remover.Remove(ctx, h.b)
	if err == nil {
		err = remover.Close(ctx)
	}
	if err != nil && !errors.Is(err, transport.ErrTaken) {
		c.Abandon()
	}
}

// giveBack deletes B. That it is gone or somebody else's is fine too.
func (h *Held) giveBack(ctx context.Context) error {
	remover := h.Session.Claims()
	if remover == nil || remover.Conn() != h.conn() {
		remover = h.conn().Channel()
	}
	if !h.ready {
		// Ready was not called, or not to its end.
		if err := h.ledger.PutBack(ctx); err != nil {
			return err
		}
	}
	err := remover.RemoveConsumed(ctx, h.b)
	if err != nil && slots.LostRace(err) {
		return nil
	}
	return err
}

// tidy ends what runs for this slot and closes its channels, so that the
// connection can be used for the next one.
func (h *Held) tidy(ctx context.Context) error {
	return h.conn().Bound(ctx, "cannot close the channels of "+h.String(), func() error {
		h.Settle()
		if err := h.checks.channel.Close(ctx); err != nil {
			return err
		}
		return h.watch.channel.Close(ctx)
	})
}

// Settle waits for the goroutines of this slot. They end once they have their
// answer or the connection is closed; the caller sees to either.
func (h *Held) Settle() {
	<-h.watch.done
	h.checks.settle()
}
