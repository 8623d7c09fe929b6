package rabbit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/lock"
)

// held is lock.Held: B of one slot, owned by the holding connection.
type held struct {
	l    *contender
	conn *conn
	slot int
	a, b string // a is empty for a mutex

	checks line // for verifying only, so that a slow answer delays nothing else

	consumer line          // owned by the goroutine of follow
	stop     chan struct{} // closed by Release: nothing is a loss from then on
	stopped  sync.Once
	followed chan struct{} // closed when follow has ended

	mu    sync.Mutex
	lost  chan struct{} // closed together with setting cause
	cause error         // guarded by mu
	check *check        // the last one, maybe unanswered; guarded by mu
}

// hold makes a Held of a slot whose B has just been claimed: consumes from B,
// which tells when it is deleted, and verifies once. On an error nothing is
// left but B itself.
func (l *contender) hold(ctx context.Context, slot int) (*held, error) {
	h := &held{
		l: l, conn: l.conn, slot: slot, b: l.names.holds(slot),
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
	err := l.conn.do(ctx, op{"consume from", h.b, "read permission on it"}, func() (err error) {
		s, err = h.subscribe()
		return err
	})
	if err != nil {
		return nil, err
	}
	go h.follow(s)
	bounded, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := h.Verify(bounded); err != nil {
		h.end()
		if cut := h.tidy(ctx); cut != nil {
			l.conn.abandon()
		}
		return nil, err
	}
	return h, nil
}

// Slot implements lock.Held.
func (h *held) Slot() int { return h.slot }

// Term implements lock.Held. There are no terms yet.
func (h *held) Term() uint64 { return 0 }

// Lease implements lock.Held. The broker looks every heartbeat interval whether
// it has heard from us and closes the connection after two looks without a
// sign: never earlier than two intervals after the last byte it received
// (https://www.rabbitmq.com/docs/heartbeats).
func (h *held) Lease() time.Duration { return 2 * h.conn.amqp.Config.Heartbeat }

// Ready implements lock.Held. The slot was verified when it was won.
func (h *held) Ready(ctx context.Context) error {
	if err := h.Cause(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("slot %d of %s: %w", h.slot, h.l.id, err)
	}
	return nil
}

// Lost implements lock.Held.
func (h *held) Lost() <-chan struct{} { return h.lost }

// Cause implements lock.Held.
func (h *held) Cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// Handover implements lock.Held: the slot ends with the connection, which a
// guard cannot keep.
func (h *held) Handover() lock.Handover { return lock.Handover{} }

// lose records the loss, unless there was one before or the slot was released.
func (h *held) lose(why string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = lock.Errorf(lock.ErrLost, "slot %d of %s: %s", h.slot, h.l.id, why)
		if !isClosed(h.stop) {
			close(h.lost)
		}
	}
	return h.cause
}

// Release implements lock.Held.
func (h *held) Release(ctx context.Context) error {
	defer h.l.forget(h)
	if h.end() {
		return nil // released before
	}
	err := h.giveBack(ctx)
	if err == nil {
		err = h.tidy(ctx)
	}
	if err == nil {
		return nil
	}
	h.conn.abandon()
	<-h.conn.done
	h.settle()
	if h.conn.orderly() {
		return nil // B has gone with the connection, by the broker's own word
	}
	return fmt.Errorf("cannot confirm that slot %d of %s was given back; the connection was closed, which frees it: %w", h.slot, h.l.id, err)
}

// giveBack deletes B. That it is gone or somebody else's is fine too.
func (h *held) giveBack(ctx context.Context) error {
	remover := &line{conn: h.conn}
	err := remover.remove(ctx, h.b)
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
				if err := l.ch.Close(); err != nil {
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
