package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"berth/lock"
)

// retryPause lies between attempts at what fails in passing: a claim of a queue
// that is just going, a connection to a broker that is just starting.
const (
	retryPause        = 25 * time.Millisecond
	longestRetryPause = 500 * time.Millisecond
)

// releaseRecordTimeout bounds the attempts to record a release.
const releaseRecordTimeout = 2 * time.Second

// givenBack is for how long a newcomer leaves a slot alone that it has given
// back to its holder.
const givenBack = time.Second

// unusable is for how long a contender leaves a slot alone whose ledger it could
// not use, and tries the others.
const unusable = 10 * time.Second

// Ready implements lock.Held: it waits until the last holder's tree is known to
// be dead, or has had the time to be, and records this holding under a new term.
//
// A successor that only waits gives the slot back if the last holder asks for
// it; Ready then returns lock.ErrFull. Once it has begun to record its own
// holding it does not, because by then the last holder's deadline has passed.
func (h *held) Ready(ctx context.Context) error {
	if err := h.Cause(); err != nil {
		return err
	}
	if h.ready {
		return nil // the command is started again
	}
	r := h.ledger
	err := h.succeed(ctx, r)
	if err != nil {
		// Whatever ctx says: records that stay unacknowledged on this connection
		// would be missing to the next one who reads.
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = r.putBack(closing)
	}
	if err != nil {
		h.l.avoidUnusable(ctx, h.slot, err)
		return err
	}
	h.ready = true
	return nil
}

// succeed waits until this holding is the one that may run, and makes sure that B
// is still ours. In this order: if B has been lost, then either whoever has it
// now finds the record, or we find out that we have it no more.
func (h *held) succeed(ctx context.Context, r *reader) error {
	if h.Term() == 0 {
		if err := h.enter(ctx, r); err != nil {
			return err
		}
	}
	err := afterRefusal(func() error { return h.l.claims.find(ctx, h.b) })
	if err = h.judge(err, "its queue is gone"); err == nil {
		r.forget()
	}
	return err
}

// afterRefusal asks once more where the first answer was a refusal. B's consumer
// was asked for on the same channel, and nobody has waited for that answer: a
// refusal of it can come in the place of another one, and closes the channel.
func afterRefusal(ask func() error) error {
	err := ask()
	if errors.Is(err, lock.ErrDenied) {
		err = ask()
	}
	return err
}

// enter waits for the last holder and records this holding.
//
// Before it returns, the record is in the ledger and in nobody's hand: whoever
// claims B from then on reads it. And nothing else is there that was not read: a
// contender that lost B, or died, may have had records in hand which are back only
// now, and count. So it is written in every pass, and what was read of it before
// stays in hand: a record that is put back is not counted at once.
func (h *held) enter(ctx context.Context, r *reader) error {
	var before history // what the first reading said of others
	for attempt, pause := 1, retryPause; ; attempt, pause = attempt+1, min(2*pause, longestRetryPause) {
		if err := afterRefusal(func() error { return r.rest(ctx) }); err != nil {
			return err
		}
		if err := h.awaitLastHolder(ctx, r); err != nil {
			return err
		}
		if attempt == 1 {
			before.held = maps.Clone(r.known.held)
		}
		if err := h.record(ctx, r); err != nil {
			return err
		}
		var records, followers int
		err := afterRefusal(func() (err error) {
			records, followers, err = r.state(ctx)
			return err
		})
		if err != nil {
			return err
		}
		switch alone := records == 1 && followers == 0; {
		case alone:
			h.entered(r)
			return nil
		case followers > 0 && attempt <= followAttempts:
		case followers > 0:
			return lock.Errorf(lock.ErrUnknown, "slot %d of %s: %s", h.slot, h.l.id, followed(h.t))
		case attempt > lookAttempts && r.known.joined(before):
			// Who has recorded itself meanwhile believes that it has B as well.
			return lock.Errorf(lock.ErrUnknown, "slot %d of %s: somebody else has entered its ledger %q too, on the other side of a split cluster maybe", h.slot, h.l.id, h.t)
		case attempt > lookAttempts && h.left(r) <= 0:
			h.entered(r)
			return nil
		case attempt == lookAttempts && records == 0 && followers == 0:
			h.l.warnOfPolicy(h.t, "a record that was just written to it is not there")
		}
		h.l.log.Debug("the ledger has changed; reading it anew", "queue", h.t, "records", records, "followers", followers)
		if err := r.putBack(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("gave up waiting for the ledger of slot %d of %s: %w", h.slot, h.l.id, err)
		}
	}
}

// lookAttempts is how often a ledger is read that does not show this holding's
// record alone. After that the handover delay alone has to do, because a policy may
// remove what is written to it; not where somebody else uses it.
//
// Who has lost B and does not know it yet goes on consuming for a moment, so that
// followAttempts is more, about three seconds.
const (
	lookAttempts   = 3
	followAttempts = 10
)

// followed says what it means that somebody else consumes a ledger: only who has B
// does. After a split that has ended, both sides can reach the ledger and B is still
// another queue on each (RabbitMQ 4.0).
func followed(ledger string) string {
	return fmt.Sprintf("somebody else consumes its ledger %q, a newcomer on the other side of a split cluster or another program; see rabbitmqctl list_consumers", ledger)
}

// record records this holding, under a new term if it has none that is the last.
func (h *held) record(ctx context.Context, r *reader) error {
	if r.known.current() {
		return h.write(ctx, h.heldRecord(r.known.own))
	}
	h.mu.Lock()
	h.created = r.fresh
	h.mu.Unlock()
	h.handover = h.lease
	if !r.known.over() {
		// Who did not end in order may have had a longer lease than ours, and
		// may come back to a slot that we lose unnoticed.
		h.handover = max(h.lease, r.known.wait(h.lease))
	}
	term := r.known.next()
	if err := h.write(ctx, h.heldRecord(term)); err != nil {
		return err
	}
	r.known.own = term
	return nil
}

// entered makes the recorded term this holding's.
func (h *held) entered(r *reader) {
	if r.known.lost() {
		h.l.warnOfPolicy(h.t, "it has a release without the record that it belongs to")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term = r.known.own
}

// warnOfPolicy says once why every handover takes so long.
func (l *contender) warnOfPolicy(ledger, why string) {
	l.policy.Do(func() {
		l.log.Warn("the broker does not keep the records of who held the slot, so every handover takes the whole handover delay; "+
			"exempt the queue from policies that set max-length, message-ttl or overflow (rabbitmqctl list_policies, list_operator_policies)",
			"queue", ledger, "because", why)
	})
}

func (h *held) heldRecord(term uint64) record {
	return record{
		Record: recordHeld, Term: term, Handover: h.handover.Milliseconds(),
		ID: h.ledger.known.id, Host: h.l.host, PID: h.l.pid,
	}
}

// left is how long this holding has to wait for earlier ones if nothing more
// becomes known. What comes later can say that it takes longer: a record that
// another reader had in hand is back in the ledger only once that reader is gone.
func (h *held) left(r *reader) time.Duration { return r.known.wait(h.lease) - time.Since(h.won) }

// awaitLastHolder returns nil as soon as the command may start, with the ledger
// read to its end.
func (h *held) awaitLastHolder(ctx context.Context, r *reader) error {
	for !h.l.vacant(r) && h.left(r) > 0 {
		h.sayWaiting(r)
		if err := r.follow(ctx); err != nil {
			return err
		}
		if err := h.awaitRecords(ctx, r); err != nil {
			return err
		}
		if err := r.unfollow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sayWaiting tells the user once for each holder that is waited for.
func (h *held) sayWaiting(r *reader) {
	last := r.known.newest()
	if h.waitsFor != nil && *h.waitsFor == last.Term {
		return
	}
	h.waitsFor = &last.Term
	atMost := h.left(r).Round(time.Millisecond).String()
	if last.Term == 0 {
		h.l.log.Info("waiting because the ledger does not say who held the slot last", "slot", h.slot, "queue", h.t, "at_most", atMost)
		return
	}
	h.l.log.Info("waiting for the last holder's release", "slot", h.slot, "term", last.Term, "host", last.Host, "at_most", atMost)
}

// awaitRecords takes what is pushed until the command may start.
func (h *held) awaitRecords(ctx context.Context, r *reader) error {
	enough := time.NewTimer(h.left(r))
	defer enough.Stop()
	for !r.known.over() {
		select {
		case d, open := <-r.pushed:
			if !open {
				return fmt.Errorf("reading the ledger of slot %d of %s was cut off: %w", h.slot, h.l.id, lock.ErrUnknown)
			}
			r.take(d)
			enough.Reset(h.left(r))
		case term := <-h.reclaims:
			if term != 0 && term == r.known.newest().Term {
				h.returned = true
				h.l.avoid(h.slot, givenBack, errTaken)
				return lock.Errorf(lock.ErrFull, "slot %d of %s: its holder lives and has asked for it back", h.slot, h.l.id)
			}
		case <-enough.C:
			return nil
		case <-h.Lost():
			return h.Cause()
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for the last holder of slot %d of %s: %w", h.slot, h.l.id, ctx.Err())
		}
	}
	return nil
}
