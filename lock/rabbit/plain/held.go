package plain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/claim"
	"berth/lock/rabbit/transport"
)

// Pauses between attempts to claim a slot again whose connection broke. The broker may not know of that yet.
const (
	firstReclaimPause = 5 * time.Millisecond
	maxReclaimPause   = 250 * time.Millisecond
)

// Held is lock.Held: B of a slot, owned by the session's connection.
type Held struct {
	Claim     *claim.Claim
	contender *Contender
	slot      int
	a, b      string        // a is empty for a mutex
	lease     time.Duration // and the handover delay
	won       time.Time     // when B was ours

	term   atomic.Uint64    // 0 until the command may start
	proven boottime.Instant // see Proven; written before the start only
	over   chan struct{}    // closed once Release has ended
}

var _ lock.Held = (*Held)(nil)

func newHeld(c *Contender, slot int) *Held {
	n, lease := c.cfg.Names, cmp.Or(c.cfg.Lease, 2*c.session.Conn().Heartbeat())
	h := &Held{contender: c, slot: slot, b: n.Holds(slot), lease: lease, over: make(chan struct{})}
	h.Claim = claim.NewUnwatched(h.String(), h.b, c.session.Side(), c.cfg.Log)
	if n.ID.Kind.Administered() {
		h.a = n.Exists(slot)
	}
	return h
}

// String names the slot, for messages.
func (h *Held) String() string { return fmt.Sprintf("slot %d of %s", h.slot, h.contender.cfg.Names.ID) }

// Lost implements lock.Held.
func (h *Held) Lost() <-chan struct{} { return h.Claim.Lost() }

// Cause implements lock.Held.
func (h *Held) Cause() error { return h.Claim.Cause() }

// Slot implements lock.Held.
func (h *Held) Slot() int { return h.slot }

// Term implements lock.Held. It is the clock in microseconds, taken after the delay: it grows as far as the clocks of
// holders agree to within that.
func (h *Held) Term() uint64 { return h.term.Load() }

// Lease implements lock.Held: the broker closes a connection after two heartbeats without a byte, at the earliest.
func (h *Held) Lease() time.Duration { return h.lease }

// Handover implements lock.Held: there is nowhere to leave a will.
func (h *Held) Handover() lock.Handover { return lock.Handover{} }

// Proven implements lock.Held.
func (h *Held) Proven() boottime.Instant { return h.proven }

// exists finds out whether the slot is there. After the claim of B: who removes a slot looks at that after A.
func (h *Held) exists(ctx context.Context) error {
	if h.a == "" {
		return nil
	}
	return h.Claim.JudgeExistence(h.Claim.Side().Find(ctx, h.a))
}

// Ready implements lock.Held. It waits for as long as the last holder's command may live, if that one's lease is no
// longer than ours, and then proves the slot.
func (h *Held) Ready(ctx context.Context) error {
	if err := h.Claim.Cause(); err != nil {
		return err
	}
	if h.Claim.Started() {
		return nil // the command is started again
	}
	if err := h.wait(ctx); err != nil {
		return err
	}
	since := h.contender.cfg.Dialer.Clock.Now()
	if err := h.Verify(ctx); err != nil {
		return err
	}
	h.contender.term = max(h.contender.term+1, uint64(time.Now().UnixMicro()))
	h.term.Store(h.contender.term)
	h.proven = since
	h.Claim.Start()
	h.contender.session.KeepSilent(true)
	return nil
}

// wait waits until the handover delay has passed since B was won.
func (h *Held) wait(ctx context.Context) error {
	left := h.lease - time.Since(h.won)
	h.contender.cfg.Log.Info("waiting for the handover delay, because the plain protocol does not tell when the last "+
		"command is dead", "slot", h.slot, "at_most", left.Round(time.Millisecond).String())
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-h.Claim.Conn().Blocked():
		return h.Claim.Conn().BrokenError("cannot wait for " + h.String())
	case <-h.Claim.Lost():
		return h.Claim.Cause()
	}
	if ctx.Err() != nil { // a question now would stay asked
		return fmt.Errorf("gave up waiting for the handover delay of %s: %w", h, ctx.Err())
	}
	return nil
}

// Verify implements lock.Held. It looks at A and, as B's owner, at B.
func (h *Held) Verify(ctx context.Context) error {
	return h.Claim.Ask(ctx, func() error {
		background := context.Background() // the channel is patient once the command may be alive
		if err := h.exists(background); err != nil {
			return err
		}
		return h.Claim.Prove(background)
	})
}

// Reclaim implements lock.Held. Where the connection is gone it connects again and claims B of the same slot. nil is
// proof that it is still ours: a berth that has had B meanwhile starts only after the delay. It goes on trying until
// ctx ends; the next call takes up where it stopped.
func (h *Held) Reclaim(ctx context.Context) error {
	pauses := transport.Pauses(firstReclaimPause, maxReclaimPause)
	for tries := 0; ; tries++ {
		err := h.Verify(ctx)
		if errors.Is(err, lock.ErrInDoubt) {
			if err = h.reconnect(ctx); err == nil {
				continue // and look
			}
		} else if err == nil || tries == 0 {
			return err
		}
		if errors.Is(err, lock.ErrLost) {
			return err
		}
		h.contender.cfg.Log.Debug("slot not reclaimed yet", "queue", h.b, "error", err)
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return lock.Errorf(lock.ErrInDoubt, "cannot reclaim %s yet: %w", h, err)
		}
	}
}

// reconnect claims B on another connection. The slot is lost if it has got a ledger: those who use the full protocol start
// as soon as B is free, and leave it free at times.
func (h *Held) reconnect(ctx context.Context) error {
	session := h.contender.session
	if err := session.Connect(ctx); err != nil {
		return err
	}
	side := session.Side()
	if err := side.Claim(ctx, h.b); err != nil {
		return err
	}
	if err := h.contender.withoutLedger(ctx, h.slot); errors.Is(err, lock.ErrUnsafe) {
		return h.Claim.Lose(err.Error())
	} else if err != nil {
		return err
	}
	h.Claim.Unwatch()
	h.Claim.Wait() // what was asked on the broken connection
	if err := h.Claim.MoveTo(ctx, side); err != nil {
		return err
	}
	session.KeepSilent(true)
	h.contender.cfg.Log.Info("slot reclaimed", "slot", h.slot, "broker", side.Conn().Label())
	return nil
}

// Release implements lock.Held.
func (h *Held) Release(ctx context.Context) error {
	if h.Claim.End() {
		return nil // released before
	}
	defer close(h.over)
	session := h.contender.session
	session.KeepSilent(false)
	if session.Conn() != h.Claim.Conn() {
		session.Conn().Abandon() // with what a reclaim has claimed that did not come to its end
	}
	err := h.Claim.GiveBack(ctx)
	if err != nil {
		h.Claim.Conn().Abandon()
		<-h.Claim.Conn().Done()
	}
	h.Claim.Wait()
	if err == nil || h.Claim.Conn().Orderly() {
		return nil
	}
	return fmt.Errorf("cannot confirm that %s was given back; the connection was closed, which frees it: %w", h, err)
}
