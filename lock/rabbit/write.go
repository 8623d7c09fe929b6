package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"berth/lock"
)

// write puts a record into the ledger and returns once the broker has it. It
// tries again for as long as ctx and recordTimeout allow: the same record twice
// does no harm. A ledger that has gone meanwhile is made anew.
func (h *held) write(ctx context.Context, rec record) error {
	message, err := rec.message()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	reason := errNotTaken
	for pause := retryPause; ; pause = min(2*pause, longestRetryPause) {
		found, err := h.l.courier.deliver(bounded, h.t, message)
		switch {
		case err == nil && found == present:
			return nil
		case errors.Is(err, lock.ErrDenied):
			return err
		case err == nil && found == absent:
			err = h.l.makeLedger(bounded, h.t)
		}
		if err != nil && bounded.Err() == nil {
			reason = err
		}
		h.l.log.Debug("record not written yet", "queue", h.t, "record", rec.Record, "error", err)
		select {
		case <-bounded.Done():
			return fmt.Errorf("cannot record %q for slot %d of %s: %w: %w", rec.Record, h.slot, h.l.id, lock.ErrUnknown, reason)
		case <-time.After(pause):
		}
	}
}

// errNotTaken is why a record is not written if nothing else is known.
var errNotTaken = errors.New("the broker has not taken it")

// makeLedger makes a ledger anew, on a connection of its own: what is asked on the
// holding one cannot be given up without cutting it, and the courier's may be
// blocked.
func (l *contender) makeLedger(ctx context.Context, queue string) error {
	c, err := l.dialer.dial(ctx, "ledger")
	if err != nil {
		return err
	}
	defer c.close()
	maker := &line{conn: c}
	return maker.makeLedger(ctx, queue)
}

// release records that the tree of this holding is dead, if there was one. Who
// did not become ready says nothing: the holder before may have its slot back
// and its command running.
//
// It is not worth a long wait: successors do without it, after the handover
// delay, and B is still to be given back. What could not be recorded is owed.
func (h *held) release(ctx context.Context) error {
	if !h.ready {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, releaseRecordTimeout)
	defer cancel()
	who := holding{h.Term(), h.ledger.known.id}
	for pause := retryPause; ; pause = min(2*pause, longestRetryPause) {
		err := h.l.courier.release(bounded, h.t, who)
		if err == nil || errors.Is(err, lock.ErrDenied) { // said when the slot was won
			return nil
		}
		h.l.log.Debug("release not recorded yet", "queue", h.t, "term", who.term, "error", err)
		if sleep(bounded, pause) != nil {
			h.l.owe(h.t, who)
			return fmt.Errorf("cannot record the release of slot %d of %s yet: %w: %w", h.slot, h.l.id, lock.ErrUnknown, err)
		}
	}
}

// owe keeps a release that the broker has not taken, for payDebts.
func (l *contender) owe(ledger string, who holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.debts == nil {
		l.debts = make(map[holding]string)
	}
	l.debts[who] = ledger
}

// payDebts records the releases that could not be recorded when they were due,
// once the broker answers again: every successor waits for them, this contender
// too. Each is tried once.
func (l *contender) payDebts(ctx context.Context) {
	l.mu.Lock()
	debts := maps.Clone(l.debts)
	l.mu.Unlock()
	for who, ledger := range debts {
		bounded, cancel := context.WithTimeout(ctx, releaseRecordTimeout)
		err := l.courier.release(bounded, ledger, who)
		cancel()
		l.log.Debug("recording an earlier release", "queue", ledger, "term", who.term, "error", err)
		if err != nil && !errors.Is(err, lock.ErrDenied) {
			continue
		}
		l.mu.Lock()
		delete(l.debts, who)
		l.mu.Unlock()
	}
}
