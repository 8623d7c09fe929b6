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
// claims the same slot. nil is proof that it is still ours: B is, and nobody has been
// recorded after us. It goes on trying until ctx ends.
func (h *Held) Reclaim(ctx context.Context) error {
	c, err := h.look(ctx)
	switch {
	case errors.Is(err, lock.ErrInDoubt):
		return h.reconnect(ctx)
	case err != nil:
		return err
	case c.ledger == recorded || c.ledger == emptied && h.wasEmptied:
		return nil
	}
	return h.recordAgain(ctx, c.ledger)
}

// againTimeout bounds the attempt to fill a ledger that was emptied. A successor
// waits for its own lease without the record, which may be shorter than ours.
const againTimeout = time.Second

// recordAgain records this holding in a ledger that somebody has deleted or purged.
// After a purge the slot is held whether or not that works, which it does not under
// an alarm of the broker.
func (h *Held) recordAgain(ctx context.Context, state ledgerState) error {
	if state == deleted {
		h.wasEmptied = false
		h.Log.Warn("the slot's ledger was deleted; making it anew", "queue", h.t)
		if err := h.Writer.Write(ctx, h.t, h.record(h.Term())); err != nil {
			return lock.Errorf(lock.ErrInDoubt,
				"%s is held, but its ledger %s was deleted and cannot be made anew: %s", h, h.t, err.Error())
		}
		return nil
	}
	h.wasEmptied = true
	h.Log.Warn("the slot's ledger was emptied; recording this holder again", "queue", h.t)
	bounded, cancel := context.WithTimeout(ctx, againTimeout)
	defer cancel()
	if err := h.Writer.Write(bounded, h.t, h.record(h.Term())); err != nil {
		h.Log.Debug("not recorded again", "queue", h.t, "error", err)
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
	err := h.Session.Claims().Claim(ctx, h.b)
	if errors.Is(err, transport.ErrTaken) {
		return errors.Join(err, h.askForIt(ctx))
	}
	if err != nil {
		return err
	}
	if err := h.examineLedger(ctx); err != nil {
		return err
	}
	return h.settleOn(ctx)
}

func (h *Held) mayLoseLedger() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.created && time.Since(h.won) < h.Env.Young
}

// askForIt asks whoever has B to give it back. The owner may also be our own
// old connection, of which the broker does not know yet that it is gone.
func (h *Held) askForIt(ctx context.Context) error {
	m, err := transport.NewMessage(requestReclaim, request{Request: requestReclaim, Term: h.Term()})
	if err != nil || h.userMismatch {
		return err
	}
	m.UserID = cmp.Or(h.Env.User, h.conn().User())
	_, err = h.Session.Publisher.Deliver(ctx, h.b, m)
	if errors.Is(err, transport.ErrUnfit) {
		h.userMismatch = true
		h.Log.Warn("a slot that a newcomer has won meanwhile cannot be asked back: the broker knows us by "+
			"another name than that in the URL", "error", err)
		return nil
	}
	return err
}

// examineLedger makes sure that nobody was recorded after us. A record that was
// lost, with a restart of the broker, is written anew.
func (h *Held) examineLedger(ctx context.Context) error {
	term := h.Term()
	r := ledger.NewReader(h.Session.Conn().Channel(), h.t, h.holding(term).ID)
	err := h.readLedger(ctx, r)
	if end := h.putBack(r); err == nil {
		err = end
	}
	switch {
	case err != nil:
		return err
	case r.Known.Released(term):
		return h.lose("its guard has released it")
	case r.Known.Highest() >= term: // also the same term: whoever wrote that has won the slot after us
		return h.lose("somebody else has held it since")
	case r.Known.Own() == term:
		return nil
	}
	return h.Writer.Write(ctx, h.t, h.record(term))
}

// readLedger reads all records, ours or one after it among them, or makes sure
// that there is none. A record that is not there may also be in the hand of a
// newcomer that has followed the ledger and lost B, together with its own. Who
// began to follow it later waits until our deadline has passed, and then finds
// that B is not its own.
func (h *Held) readLedger(ctx context.Context, r *ledger.Reader) error {
	if err := r.Begin(ctx); err != nil {
		return err
	}
	if err := r.Rest(ctx); err != nil || r.Known.Own() == h.Term() || r.Known.Highest() >= h.Term() {
		return err
	}
	_, followers, err := r.Count(ctx)
	if err != nil {
		return err
	}
	if followers > 0 {
		return lock.Errorf(lock.ErrUnknown, "a newcomer still reads %s", h.t)
	}
	return r.Again(ctx)
}

// settleOn makes the holding go on, on the session's new connection.
func (h *Held) settleOn(ctx context.Context) error {
	c := h.Session.Conn()
	channel := c.PatientChannel()
	var consumer *transport.Consumer
	err := c.Bound(ctx, "cannot watch "+h.String(), func() (err error) {
		consumer, err = consume(ctx, channel, h.b, false)
		return err
	})
	if err != nil {
		return err
	}
	h.Settle()
	h.renew()
	h.observe(consumer, channel)
	h.Waiter.Keep(h.slot)
	h.Log.Info("slot reclaimed on another connection", "slot", h.slot, "broker", c.Label())
	return h.await(ctx, h.checks.begin())
}
