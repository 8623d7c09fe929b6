package holding

import (
	"cmp"
	"context"
	"errors"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// Attempts to reclaim follow each other quickly at first, because whoever has
// the slot gives it back within milliseconds, and then less so: all holders of a
// broker that has just started are at it.
const (
	firstReclaimPause   = 5 * time.Millisecond
	longestReclaimPause = 250 * time.Millisecond
)

// young is how long a ledger may be lost again after the broker has confirmed
// it: Mnesia writes its log with a delay (two seconds by default). A holder that
// has just created its ledger does not survive a broker that goes down: if the
// broker comes back without the ledger, a newcomer takes it for a first use.
const young = 5 * time.Second

// Reclaim implements lock.Held. Where the connection is gone it connects again and
// claims B of the same slot. nil is proof that it is still ours: whoever is next starts
// without our release only after it has had B for as long as we may live. It goes on
// trying until ctx ends.
func (h *Held) Reclaim(ctx context.Context) error {
	c, err := h.look(ctx)
	switch {
	case errors.Is(err, lock.ErrInDoubt):
		return h.reconnect(ctx)
	case err != nil:
		return err
	case c.ledger == recorded:
		return nil
	}
	return h.recordAgain(ctx, c.ledger)
}

// recordAgain records this holding in a ledger that somebody has deleted or purged, or
// whose records a newcomer has in hand that has heard nothing of us, and waits. Until
// then the slot is not proved to be ours.
func (h *Held) recordAgain(ctx context.Context, state ledgerState) error {
	what := "deleted"
	if state == emptied {
		what = "emptied"
	}
	if state == deleted || !h.wasEmptied {
		h.Log.Warn("the slot's ledger was "+what+"; recording this holder again", "queue", h.t)
	}
	h.wasEmptied = state == emptied
	if err := h.Writer.Write(ctx, h.t, h.again()); err != nil {
		return lock.Errorf(lock.ErrInDoubt, "%s is held, but its ledger %s was %s and cannot be written: %s", h, h.t, what,
			err.Error())
	}
	return nil
}

// reconnect reclaims the slot on another connection. The next call takes up where it
// stopped.
func (h *Held) reconnect(ctx context.Context) error {
	pauses, asked := transport.Pauses(firstReclaimPause, longestReclaimPause), false
	for {
		err := h.reclaimOnce(ctx)
		if err == nil || errors.Is(err, lock.ErrLost) {
			return err
		}
		h.Log.Debug("slot not reclaimed yet", "queue", h.b, "error", err)
		if errors.Is(err, transport.ErrTaken) && !asked {
			asked = true
			pauses.Reset() // an answer comes soon
		}
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return lock.Errorf(lock.ErrInDoubt, "cannot reclaim %s yet: %w", h, err)
		}
	}
}

func (h *Held) reclaimOnce(ctx context.Context) error {
	if err := h.Session.Connect(ctx); err != nil {
		if ctx.Err() == nil && h.mayLoseLedger() {
			return h.lose("the broker went down when it had just got to know of the slot: " + err.Error())
		}
		return err
	}
	err := h.Session.Side().Claim(ctx, h.b)
	if errors.Is(err, transport.ErrTaken) {
		return errors.Join(err, h.askForIt(ctx))
	}
	if err != nil {
		return err
	}
	return h.settleOn(ctx)
}

// again is the record of this holding, to be written once more.
func (h *Held) again() ledger.Record { return h.holding(h.Term()).Held(h.handover, h.Host, h.PID) }

func (h *Held) mayLoseLedger() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.made && time.Since(h.won) < h.Env.Young
}

// askForIt asks whoever has B to give it back. The owner may also be our own
// old connection, of which the broker does not know yet that it is gone.
func (h *Held) askForIt(ctx context.Context) error {
	m, err := transport.NewMessage(requestReclaim, request{Request: requestReclaim, Term: h.Term()})
	if err != nil || h.userMismatch {
		return err
	}
	m.UserID = cmp.Or(h.Env.User, h.conn().User())
	_, err = h.Session.Deliver(ctx, h.b, m)
	if errors.Is(err, transport.ErrUnfit) {
		h.userMismatch = true
		h.Log.Warn("a slot that a newcomer has won meanwhile cannot be asked back: the broker knows us by "+
			"another name than that in the URL", "error", err)
		return nil
	}
	return err
}

// settleOn makes the holding go on, with B on the session's connection.
func (h *Held) settleOn(ctx context.Context) error {
	side := h.Session.Side()
	consumer, err := consume(ctx, side, h.b, false)
	if err != nil {
		return err
	}
	if _, c := h.place(); c != nil && c.watch != nil {
		c.watch.stop()
	}
	<-h.settled
	h.Settle()
	h.Session.BePatient(true)
	h.renew()
	h.mu.Lock()
	h.door, h.claim, h.checks = nil, nil, &checks{held: h, channel: side}
	h.mu.Unlock()
	h.observe(consumer, side)
	h.Log.Info("slot reclaimed", "slot", h.slot, "broker", side.Conn().Label())
	return h.await(ctx, h.present().begin())
}
