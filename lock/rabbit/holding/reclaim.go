package holding

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"berth/lock"
	"berth/lock/rabbit/claim"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/request"
	"berth/lock/rabbit/transport"
)

// Attempts to reclaim follow each other quickly at first, because a waiter that has the slot gives it back within
// milliseconds, and then less so: all holders of a broker that has just started reclaim.
const (
	firstReclaimPause = 5 * time.Millisecond
	maxReclaimPause   = 250 * time.Millisecond
)

// young is how long a ledger may be lost again after the broker has confirmed it: Mnesia writes its log with a delay
// (two seconds by default). A holder that has just created its ledger does not survive a broker that goes down: if the
// broker comes back without the ledger, a newcomer takes it for a first use.
const young = 5 * time.Second

// Reclaim implements lock.Held. Where the connection is gone it connects again and claims B of the same slot. nil is
// proof that it is still ours: the successor starts without our release only after it has had B for as long as we
// may live. Where the ledger has lost our record, it is written again. It goes on trying until ctx ends; the next call
// takes up where it stopped.
func (h *Held) Reclaim(ctx context.Context) error {
	pauses, asked := transport.Pauses(firstReclaimPause, maxReclaimPause), false
	for tries := 0; ; tries++ {
		state, err := h.look(ctx)
		switch {
		case errors.Is(err, lock.ErrInDoubt):
			if err = h.reconnect(ctx); err == nil {
				continue // and look
			}
		case err == nil && state != recorded:
			err = h.recordAgain(ctx, state)
		case tries == 0:
			return err
		}
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

// recordAgain records this holding in a ledger that somebody has deleted or purged, or whose records a newcomer has in
// hand that has heard nothing of us, and waits. Until then the slot is not proved to be ours.
func (h *Held) recordAgain(ctx context.Context, state ledgerState) error {
	if state == deleted {
		if err := h.Writer.Create(ctx, h.t); err != nil {
			return err
		}
	}
	err := h.Claim.Ask(ctx, func() error { return h.onlyType(context.Background()) }) // its channel is patient
	if errors.Is(err, names.ErrOtherType) {
		return h.Claim.Lose("its ledger was " + string(state) + ", and it exists with quorum queues")
	} else if err != nil {
		return err
	}
	if err := h.writeApart(ctx, h.holding()); err != nil {
		return err
	}
	if state == emptied && h.wasEmptied {
		h.Writer.WarnOfPolicy(h.t, "it is empty again although a command runs")
	} else {
		h.Log.Warn("recording this holder again: the slot's ledger was "+string(state), "queue", h.t)
	}
	h.wasEmptied = state == emptied
	return nil
}

// reconnect claims B on another connection, where that is necessary.
func (h *Held) reconnect(ctx context.Context) error {
	if err := h.Session.Connect(ctx); err != nil {
		if ctx.Err() == nil && time.Since(h.made) < h.Env.Young {
			return h.Claim.Lose("the broker went down when it had just got to know of the slot: " + err.Error())
		}
		return err
	}
	side := h.Session.Side()
	if err := side.Claim(ctx, h.b); errors.Is(err, transport.ErrTaken) {
		asking := h.askForIt(ctx)
		if errors.Is(asking, lock.ErrLost) {
			return asking
		}
		return errors.Join(err, asking)
	} else if err != nil {
		return err
	}
	<-h.takeBEnded
	h.Claim.Unwatch()
	h.Claim.Wait() // what was asked on the broken connection
	if err := h.Claim.MoveTo(ctx, side); err != nil {
		return err
	}
	h.reader.Store(nil)
	h.asked = 0
	h.Session.KeepSilent(true)
	h.Log.Info("slot reclaimed", "slot", h.slot, "broker", side.Conn().Label())
	return nil
}

// askForIt asks the owner of B to give it back. The owner may also be our own old connection, of which the broker does
// not know yet that it is gone; or somebody whose command runs, because this host stood still and its clock with it.
// That one says so. One that only waits gives B back, within milliseconds: the first questions await no answer.
func (h *Held) askForIt(ctx context.Context) error {
	m := claim.ReclaimRequest(h.Term())
	over := false
	err := h.Session.Lender.Lend(ctx, func(c *transport.Channel) (err error) {
		var answers *transport.Consumer
		if h.asked++; h.asked > 2 {
			if answers, err = c.Consume(ctx, request.ReplyTo, transport.Consumption{NoAck: true}); err != nil {
				return err
			}
			m.ReplyTo, m.CorrelationId = request.ReplyTo, rand.Text()
		}
		_, err = c.Publish(ctx, transport.Batch{Queue: h.b, Message: m})
		over = err == nil && answers != nil && saysOver(ctx, answers, m.CorrelationId)
		return err
	})
	if over {
		return h.Claim.TakenOver("a newer holder has started its command")
	}
	return err
}

// isOver is what a holder whose command runs answers to one of a lower term that asks for the slot.
var isOver = []byte(`{"reclaim":"over"}`)

// overTimeout is how long that takes at most. It is asked again and again, and the pauses begin after that.
const overTimeout = 100 * time.Millisecond

// saysOver waits for that answer for a moment. An older version gives none.
func saysOver(ctx context.Context, answers *transport.Consumer, id string) bool {
	timer := time.NewTimer(overTimeout)
	defer timer.Stop()
	for {
		select {
		case d, open := <-answers.Deliveries:
			if !open {
				return false
			}
			if to, text, ok := request.Answer(d); ok && to == id && bytes.Equal(text, isOver) {
				return true
			}
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// handle gets what comes to B, but for requests for the slot that may be granted.
func (h *Held) handle(d transport.Delivery) {
	term, asked := h.Claim.Asked(d)
	switch {
	case !asked:
		h.Inbox.Handle(d)
	case term < h.Term():
		h.Inbox.Answer(d, isOver)
	case term > h.Term(): // the berth that asks has started its command
		_ = h.Claim.TakenOver("a newer holder has started its command")
	}
}
