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

// young is how long a ledger may be lost again after the broker has confirmed it: Mnesia writes its log with a delay
// (two seconds by default). A holder that has just created its ledger does not survive a broker that goes down: if the
// broker comes back without the ledger, a newcomer takes it for a first use.
const young = 5 * time.Second

// repair writes the record again where the ledger has lost it, or connects again and claims B. A successor that has B
// gives it back.
func (h *Classic) repair(ctx context.Context) (proven bool, err error) {
	if h.state != recorded {
		return true, h.recordAgain(ctx)
	}
	return false, h.reconnect(ctx)
}

// recordAgain records this holding in a ledger that somebody has deleted or purged, or whose records a newcomer has in
// hand that has heard nothing of us, and waits. Until then the slot is not proved to be ours.
func (h *Classic) recordAgain(ctx context.Context) error {
	if h.state == deleted {
		if err := h.Writer.Create(ctx, h.t); err != nil {
			return err
		}
	}
	err := h.Claim.Ask(ctx, func() error { return h.onlyType(context.Background()) }) // its channel is patient
	if errors.Is(err, names.ErrOtherType) {
		return h.Claim.Lose("its ledger was " + string(h.state) + ", and it exists with quorum queues")
	} else if err != nil {
		return err
	}
	if err := h.writeApart(ctx, h.holding()); err != nil {
		return err
	}
	if h.state == emptied && h.wasEmptied {
		h.Writer.WarnOfPolicy(h.t, "it is empty again although a command runs")
	} else {
		h.Log.Warn("recording this holder again: the slot's ledger was "+string(h.state), "queue", h.t)
	}
	h.wasEmptied = h.state == emptied
	return nil
}

// reconnect claims B on another connection, where that is necessary.
func (h *Classic) reconnect(ctx context.Context) error {
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
	if err := h.moveTo(ctx, side); err != nil {
		return err
	}
	h.reader.Store(nil)
	h.asked = 0
	return nil
}

// askForIt asks the owner of B to give it back. The owner may also be our own old connection, of which the broker does
// not know yet that it is gone; or somebody whose command runs, because this host stood still and its clock with it.
// That one says so. One that only waits gives B back, within milliseconds: the first questions await no answer.
func (h *Classic) askForIt(ctx context.Context) error {
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
func (h *Classic) handle(d transport.Delivery) {
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
