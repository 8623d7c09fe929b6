package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"berth/lock"
)

// request is a message to whoever owns B.
type request struct {
	Request string `json:"request"`
	Term    uint64 `json:"term"`
}

const requestReclaim = "reclaim"

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

// dropped notes that the connection is gone. That is not yet the loss of the
// slot: until the deadline it can be claimed again, because whoever claims it
// meanwhile waits for our release, or for as long as we may live.
func (h *held) dropped(why string) error {
	if h.Term() == 0 {
		return h.lose(why)
	}
	return h.note(lock.Errorf(lock.ErrInDoubt, "slot %d of %s: %s", h.slot, h.l.id, why))
}

// reclaim connects again and claims the same slot. nil is proof that it is still
// ours: B is, and nobody has been recorded after us. It goes on trying until ctx
// ends; the next call takes up where it stopped.
func (h *held) reclaim(ctx context.Context) error {
	pause, asked := firstReclaimPause, false
	for {
		err := h.reclaimOnce(ctx)
		if err == nil || errors.Is(err, lock.ErrLost) {
			return err
		}
		h.l.log.Debug("slot not reclaimed yet", "queue", h.b, "error", err)
		if errors.Is(err, errTaken) && !asked {
			asked, pause = true, firstReclaimPause // an answer comes soon
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot reclaim slot %d of %s: %w: %w", h.slot, h.l.id, lock.ErrInDoubt, err)
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, longestReclaimPause)
	}
}

func (h *held) reclaimOnce(ctx context.Context) error {
	if err := h.l.Connect(ctx); err != nil {
		if ctx.Err() == nil && h.mayLoseLedger() {
			return h.lose("the broker went down when it had just got to know of the slot: " + err.Error())
		}
		return err
	}
	err := h.l.claims.claim(ctx, h.b)
	if errors.Is(err, errTaken) {
		return errors.Join(err, h.askForIt(ctx))
	}
	if err != nil {
		return err
	}
	if err := h.examineLedger(ctx); err != nil {
		return err
	}
	return h.settleOn(ctx, h.l.conn)
}

func (h *held) mayLoseLedger() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.created && time.Since(h.won) < young
}

// askForIt asks whoever has B to give it back. The owner may also be our own
// old connection, of which the broker does not know yet that it is gone.
func (h *held) askForIt(ctx context.Context) error {
	m, err := letter(requestReclaim, request{Request: requestReclaim, Term: h.Term()})
	if err != nil {
		return err
	}
	if h.l.stranger {
		return nil
	}
	m.UserId = h.conn.user
	_, err = h.l.courier.deliver(ctx, h.b, m)
	if errors.Is(err, errUnfit) {
		h.l.stranger = true
		h.l.log.Warn("a slot that a newcomer has won meanwhile cannot be asked back: the broker knows us by another name than that in the URL", "error", err)
		return nil
	}
	return err
}

// examineLedger makes sure that nobody was recorded after us. A record that was
// lost, with a restart of the broker, is written anew.
func (h *held) examineLedger(ctx context.Context) error {
	r := &reader{line: &line{conn: h.l.conn}, queue: h.t, known: history{id: h.ledger.known.id}}
	err := h.readLedger(ctx, r)
	// Whatever ctx says, as in Ready: the records stay.
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if end := r.putBack(closing); err == nil {
		err = end
	}
	if err != nil {
		return err
	}
	term := h.Term()
	switch {
	case r.known.gone(term):
		return h.lose("its guard has released it")
	case r.known.highest() >= term: // also the same term: whoever wrote that has won the slot after us
		return h.lose("somebody else has held it since")
	case r.known.own == term:
		return nil
	}
	return h.write(ctx, h.heldRecord(term))
}

// readLedger reads all records, ours or one after it among them, or makes sure
// that there is none. A record that is not there may also be in the hand of a
// newcomer that has followed the ledger and lost B, together with its own. Who
// began to follow it later waits until our deadline has passed, and then finds
// that B is not its own.
func (h *held) readLedger(ctx context.Context, r *reader) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.rest(ctx); err != nil || r.known.own == h.Term() || r.known.highest() >= h.Term() {
		return err
	}
	_, followers, err := r.state(ctx)
	if err != nil {
		return err
	}
	if followers > 0 {
		return lock.Errorf(lock.ErrUnknown, "a newcomer still reads %s", h.t)
	}
	r.more = true
	return r.rest(ctx)
}

// settleOn makes the holding go on, on another connection.
func (h *held) settleOn(ctx context.Context, c *conn) error {
	consumer := line{conn: c}
	var s subscription
	err := c.do(ctx, consuming(h.b), func() (err error) {
		s, err = subscribe(&consumer, h.b, false)
		return err
	})
	if err != nil {
		return err
	}
	h.settle()
	h.mu.Lock()
	h.conn, h.checks, h.consumer = c, line{conn: c}, consumer
	h.followed, h.check = make(chan struct{}), nil
	h.lost, h.cause = make(chan struct{}), nil
	h.mu.Unlock()
	go h.follow(s)
	h.l.takePart().order(keep, h.slot)
	h.l.log.Info("slot reclaimed on another connection", "slot", h.slot, "broker", c.label)
	return h.await(ctx, h.ask())
}
