package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// plain is what proves a slot of queues A and B alone: B, owned by the session's connection.
type plain struct {
	*Held
	won time.Time // when B was ours
}

// WithoutLedger returns names.Mixed if the slot has a ledger, of either type. lock.ErrDenied: who may not look cannot
// know.
func (l *Holder) WithoutLedger(ctx context.Context, slot int) error {
	for _, of := range []names.Names{l.Names, l.Names.Other()} {
		found, err := l.Session.Side().Look(ctx, of.Ledger(slot))
		if found == transport.Present {
			return of.Mixed(slot)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// enter claims B. Errors: lock.ErrUnsafe if the slot has a ledger.
func (h *plain) enter(ctx context.Context, _, _ bool) error {
	if h.a == "" { // nobody has looked yet, and a refused claim costs a channel
		if found, err := h.Session.ProbeOne(ctx, h.b); err == nil && found == transport.Present {
			return fmt.Errorf("%s: %w", h, transport.ErrTaken)
		}
	}
	err := h.Claim.Take(ctx)
	if err == nil { // who removes a slot looks at B after A
		err = h.Claim.JudgeExistence(h.find(ctx))
	}
	if err == nil {
		err = h.WithoutLedger(ctx, h.slot)
	}
	h.won = time.Now()
	return err
}

// MayStart implements proof. There is nobody to hear of.
func (h *plain) MayStart() bool { return h.Claim.Started() }

// ready waits for as long as the last holder's command may live, if that one's lease is no longer than ours, and then
// proves the slot. The term is the clock in microseconds, taken after that: it grows as far as the clocks of holders
// agree to within the delay.
func (h *plain) ready(ctx context.Context) error {
	if err := h.delay(ctx); err != nil {
		return err
	}
	since := h.Session.Dialer.Clock.Now()
	if err := h.verify(ctx); err != nil {
		return err
	}
	h.highest = max(h.highest+1, uint64(time.Now().UnixMicro()))
	h.term.Store(h.highest)
	h.proven = since
	h.started()
	return nil
}

// delay waits until the handover delay has passed since B was won.
func (h *plain) delay(ctx context.Context) error {
	left := h.lease - time.Since(h.won)
	h.Log.Info("waiting for the handover delay, because the plain protocol does not tell when the last "+
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

// verify looks at A and, as B's owner, at B.
func (h *plain) verify(ctx context.Context) error {
	return h.Claim.Ask(ctx, func() error {
		background := context.Background() // the channel is patient once the command may be alive
		if err := h.Claim.JudgeExistence(h.find(background)); err != nil {
			return err
		}
		return h.Claim.Prove(background)
	})
}

// repair connects again and claims B. The slot is lost if it has got a ledger: those who use the full protocol start
// as soon as B is free, and leave it free at times.
func (h *plain) repair(ctx context.Context) (proven bool, err error) {
	if err := h.Session.Connect(ctx); err != nil {
		return false, err
	}
	side := h.Session.Side()
	if err := side.Claim(ctx, h.b); err != nil {
		return false, err
	}
	if err := h.WithoutLedger(ctx, h.slot); errors.Is(err, lock.ErrUnsafe) {
		return false, h.Claim.Lose(err.Error())
	} else if err != nil {
		return false, err
	}
	return false, h.moveTo(ctx, side)
}

func (h *plain) resign(ctx, _ context.Context) (unrecorded, err error) {
	h.Session.KeepSilent(false)
	if h.Session.Conn() != h.Claim.Conn() {
		h.Session.Conn().Abandon() // with what a repair has claimed that did not come to its end
	}
	return nil, h.Claim.GiveBack(ctx)
}

func (h *plain) wait() { h.Claim.Wait() }
