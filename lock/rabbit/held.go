package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// held is lock.Held: B of one slot, owned by the holding connection.
//
// conn, checks, consumer and followed change when the slot is reclaimed on
// another connection; that happens inside Reclaim, with nothing else under way.
type held struct {
	l       *contender
	conn    *conn
	slot    int
	a, b, t string // a is empty for a mutex
	lease   time.Duration
	won     time.Time // when B was ours

	ledger *reader // of what was there when the slot was won; used in Ready

	checks line // for verifying only, so that a slow answer delays nothing else

	consumer line          // for consuming again; owned by the goroutine of follow
	reclaims chan uint64   // terms whose holders ask for the slot
	stop     chan struct{} // closed by Release: nothing is a loss from then on
	stopped  sync.Once
	followed chan struct{} // closed when follow has ended

	handover time.Duration // what the record says; written in Ready only
	returned bool          // given back to the last holder; written in Ready only
	ready    bool          // the command may start; written in Ready only
	wasEmpty bool          // the ledger had no record at the last verification; used in Verify and Reclaim only
	waitsFor *uint64       // the term whose release the user was told is waited for; nil: none; used in Ready only

	mu      sync.Mutex
	term    uint64        // 0 until the ledger has it; guarded by mu
	created bool          // the ledger was created for this holding; guarded by mu
	lost    chan struct{} // closed together with setting cause; guarded by mu
	cause   error         // guarded by mu
	check   *check        // the last one, maybe unanswered; guarded by mu
}

// hold makes a Held of a slot whose B has just been claimed: consumes from B,
// which tells when it is deleted.
func (l *contender) hold(ctx context.Context, slot int, r *reader) (*held, error) {
	h := &held{
		l: l, conn: l.conn, slot: slot, b: l.names.holds(slot), t: l.names.ledger(slot),
		lease:    2 * l.conn.amqp.Config.Heartbeat,
		won:      time.Now(),
		ledger:   r,
		reclaims: make(chan uint64, 1),
		checks:   line{conn: l.conn},
		consumer: line{conn: l.conn},
		stop:     make(chan struct{}),
		followed: make(chan struct{}),
		lost:     make(chan struct{}),
	}
	if l.id.Kind.Administered() {
		h.a = l.names.exists(slot)
	}
	var s subscription
	err := l.conn.do(ctx, consuming(h.b), func() (err error) {
		s, err = subscribe(l.claims, h.b, true)
		return err
	})
	if err != nil {
		return nil, err
	}
	go h.follow(s)
	return h, nil
}

func consuming(queue string) op { return op{"consume from", queue, "read permission on it"} }

// Slot implements lock.Held.
func (h *held) Slot() int { return h.slot }

// Term implements lock.Held.
func (h *held) Term() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

// Lease implements lock.Held. The broker looks every heartbeat interval whether
// it has heard from us and closes the connection after two looks without a
// sign: never earlier than two intervals after the last byte it received
// (https://www.rabbitmq.com/docs/heartbeats).
func (h *held) Lease() time.Duration { return h.lease }

// Lost implements lock.Held.
func (h *held) Lost() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Cause implements lock.Held.
func (h *held) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// Handover implements lock.Held.
func (h *held) Handover() lock.Handover { return lock.Handover{Will: h.will()} }

// lose records proof of the loss, unless there was some before.
func (h *held) lose(why string) error {
	return h.note(lock.Errorf(lock.ErrLost, "slot %d of %s: %s", h.slot, h.l.id, why))
}

// note keeps why the slot is lost or in doubt. Proof takes the place of doubt.
// After Release nothing is told any more.
func (h *held) note(cause error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.cause == nil:
		h.cause = cause
		if !isClosed(h.stop) {
			close(h.lost)
		}
	case errors.Is(cause, lock.ErrLost) && !errors.Is(h.cause, lock.ErrLost):
		h.cause = cause
	}
	return h.cause
}

// Release implements lock.Held.
func (h *held) Release(ctx context.Context) error {
	defer h.l.forget(h)
	if h.end() {
		return nil // released before
	}
	// The record goes first and is not waited for: a successor that wins B before
	// the record is there has it pushed.
	recorded := make(chan error, 1)
	go func() { recorded <- h.release(ctx) }()
	if h.l.batons != nil && !h.returned {
		h.l.batons.order(stepAside, 0)
	}
	h.dropUnfinishedClaim(ctx)
	err := h.giveBack(ctx)
	switch {
	case err != nil || h.l.batons == nil:
	case h.returned:
		h.l.batons.order(none, 0) // nobody is to be faster than the holder
		h.l.looks = 0
	default:
		h.l.batons.handOn(ctx, h.slot)
		h.l.handed = time.Now()
		h.l.batons.makeWay(ctx)
	}
	if err == nil {
		err = h.tidy(ctx)
	}
	unrecorded := <-recorded
	if err == nil {
		return unrecorded
	}
	h.conn.abandon()
	<-h.conn.done
	h.settle()
	if h.conn.orderly() {
		return unrecorded // B has gone with the connection, by the broker's own word
	}
	return fmt.Errorf("cannot confirm that slot %d of %s was given back; the connection was closed, which frees it: %w", h.slot, h.l.id, err)
}

// dropUnfinishedClaim gives back what a reclaim has claimed that did not come to
// its end.
func (h *held) dropUnfinishedClaim(ctx context.Context) {
	if c := h.l.conn; c == nil || c == h.conn || c.broken() { // nil: an attempt to connect has failed
		return
	}
	remover := &line{conn: h.l.conn}
	err := remover.remove(ctx, h.b)
	if err == nil {
		err = remover.end(ctx)
	}
	if err != nil && !errors.Is(err, errTaken) {
		h.l.conn.abandon()
	}
}

// giveBack deletes B. That it is gone or somebody else's is fine too.
func (h *held) giveBack(ctx context.Context) error {
	remover := h.l.claims
	if remover == nil || remover.conn != h.conn {
		remover = &line{conn: h.conn}
	}
	if !h.ready {
		// Ready was not called, or not to its end.
		if err := h.ledger.putBack(ctx); err != nil {
			return err
		}
	}
	err := remover.do(ctx, op{"delete", h.b, configure}, func(ch *amqp.Channel) error {
		// The broker would tell of the deletion whoever consumes.
		if err := ch.Cancel(h.b, true); err != nil {
			return err
		}
		_, err := ch.QueueDelete(h.b, false, false, false)
		return err
	})
	if err != nil && lostRace(err) {
		return nil
	}
	return err
}

// end makes everything that happens from now on no loss. It reports whether
// that was so before.
func (h *held) end() (before bool) {
	before = true
	h.stopped.Do(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.stop)
		before = false
	})
	return before
}

// tidy ends what runs for this slot and closes its channels, so that the
// connection can be used for the next one.
func (h *held) tidy(ctx context.Context) error {
	return h.conn.do(ctx, op{verb: "close the channels of", queue: h.b}, func() error {
		h.settle()
		for _, l := range []*line{&h.checks, &h.consumer} {
			if l.ch != nil {
				if err := h.conn.closeChannel(l.ch); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// settle waits for the goroutines of this slot. They end once they have their
// answer or the connection is closed; the caller sees to either.
func (h *held) settle() {
	<-h.followed
	if c := h.lastCheck(); c != nil {
		<-c.done
	}
}
