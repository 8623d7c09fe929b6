package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// Ready implements lock.Held: it waits until the last holder's tree is known to
// be dead, or has had the time to be, and records this holding under a new term.
//
// A successor that only waits gives the slot back if the last holder asks for
// it; Ready then returns lock.ErrFull. Once it has begun to record its own
// holding it does not, because by then the last holder's deadline has passed.
func (h *Held) Ready(ctx context.Context) error {
	if err := h.Cause(); err != nil {
		return err
	}
	if h.ready {
		return nil // the command is started again
	}
	if err := h.succeed(ctx); err != nil {
		h.putBack(h.ledger)
		h.avoidUnusable(ctx, h.slot, err)
		return err
	}
	h.ready = true
	return nil
}

// putBack puts the records back that a reader has in hand, whatever has ended its
// reading: they would be missing to the next one that reads.
func (h *Held) putBack(r *ledger.Reader) error {
	closing, cancel := context.WithTimeout(context.Background(), transport.CloseTimeout)
	defer cancel()
	return r.PutBack(closing)
}

// succeed waits until this holding is the one that may run, and makes sure that B
// is still ours. In this order: if B has been lost, then either whoever has it
// now finds the record, or we find out that we have it no more.
func (h *Held) succeed(ctx context.Context) error {
	if h.Term() == 0 {
		e := entry{Held: h, Reader: h.ledger}
		if err := e.enter(ctx); err != nil {
			return err
		}
	}
	err := afterRefusal(func() error { return h.Session.Claims().Find(ctx, h.b) })
	if err = h.judge(err, "its queue is gone"); err == nil {
		h.ledger.Forget()
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

// entry is the way of a holding from its claim to its command.
type entry struct {
	*Held
	*ledger.Reader
	told *uint64 // the term whose release the user was told is waited for; nil: none
}

// enter waits for the last holder and records this holding.
//
// Before it returns, the record is in the ledger and in nobody's hand: whoever
// claims B from then on reads it. And nothing else is there that was not read: a
// contender that lost B, or died, may have had records in hand which are back only
// now, and count. So it is written in every pass, and what was read of it before
// stays in hand: a record that is put back is not counted at once.
func (e *entry) enter(ctx context.Context) error {
	var before ledger.History // what the first reading said of others
	pauses := transport.RetryPauses()
	for attempt := 1; ; attempt++ {
		if err := afterRefusal(func() error { return e.Rest(ctx) }); err != nil {
			return err
		}
		if err := e.awaitLastHolder(ctx); err != nil {
			return err
		}
		if attempt == 1 {
			before = e.Known.Clone()
		}
		if err := e.write(ctx); err != nil {
			return err
		}
		var records, followers int
		err := afterRefusal(func() (err error) {
			records, followers, err = e.Count(ctx)
			return err
		})
		if err != nil {
			return err
		}
		switch alone := records == 1 && followers == 0; {
		case alone:
			e.entered()
			return nil
		case followers > 0 && attempt <= followAttempts:
		case followers > 0:
			return lock.Errorf(lock.ErrUnknown, "%s: %s", e, followed(e.t))
		case attempt > lookAttempts && e.Known.Joined(before):
			// Whoever has entered meanwhile believes that it has B as well.
			return lock.Errorf(lock.ErrUnknown,
				"%s: somebody else has entered its ledger %q too, on the other side of a split cluster maybe", e, e.t)
		case attempt > lookAttempts && e.left() <= 0:
			e.entered()
			return nil
		case attempt == lookAttempts && records == 0 && followers == 0:
			e.warnOfPolicy(e.t, "a record that was just written to it is not there")
		}
		e.Log.Debug("the ledger has changed; reading it anew", "queue", e.t, "records", records, "followers", followers)
		if err := e.PutBack(ctx); err != nil {
			return err
		}
		if err := transport.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return fmt.Errorf("gave up waiting for the ledger of %s: %w", e, err)
		}
	}
}

// lookAttempts is how often a ledger is read that does not show this holding's
// record alone. After that the handover delay alone has to do, because a policy may
// remove what is written to it; not where somebody else uses it.
//
// A contender that has lost B and does not know it yet consumes for a moment more, so that
// followAttempts is more, about three seconds.
const (
	lookAttempts   = 3
	followAttempts = 10
)

// followed says what it means that somebody else consumes a ledger: only the owner of B
// does. After a split that has ended, both sides can reach the ledger and B is still
// another queue on each (RabbitMQ 4.0).
func followed(ledger string) string {
	return fmt.Sprintf("somebody else consumes its ledger %q, a newcomer on the other side of a split cluster or "+
		"another program; see rabbitmqctl list_consumers", ledger)
}

// write records this holding, under a new term if it has none that is the last.
func (e *entry) write(ctx context.Context) error {
	if e.Known.Current() {
		return e.Writer.Write(ctx, e.t, e.record(e.Known.Own()))
	}
	e.mu.Lock()
	e.created = e.Reader.Created()
	e.mu.Unlock()
	e.handover = e.lease
	if !e.Known.Over() {
		// A holder that did not end in order may have had a longer lease than ours, and
		// may come back to a slot that we lose unnoticed.
		e.handover = max(e.lease, e.Known.Wait(e.lease))
	}
	term := e.Known.Next()
	if err := e.Writer.Write(ctx, e.t, e.record(term)); err != nil {
		return err
	}
	e.Known.Recorded(term)
	return nil
}

// entered makes the recorded term this holding's.
func (e *entry) entered() {
	if e.Known.Lost() {
		e.warnOfPolicy(e.t, "it has a release without the record that it belongs to")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = e.Known.Own()
}

func (h *Held) record(term uint64) ledger.Record {
	return h.holding(term).Held(h.handover, h.Host, h.PID)
}

// left is how long this holding has to wait for earlier ones if nothing more
// becomes known. What comes later can say that it takes longer: a record that
// another reader had in hand is back in the ledger only once that reader is gone.
func (e *entry) left() time.Duration { return e.Known.Wait(e.lease) - time.Since(e.won) }

// awaitLastHolder returns nil as soon as the command may start, with the ledger
// read to its end.
func (e *entry) awaitLastHolder(ctx context.Context) error {
	for !e.vacant(e.Reader) && e.left() > 0 {
		e.sayWaiting()
		if err := e.Follow(ctx); err != nil {
			return err
		}
		if err := e.awaitRecords(ctx); err != nil {
			return err
		}
		if err := e.Unfollow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sayWaiting tells the user once for each holder that is waited for.
func (e *entry) sayWaiting() {
	last := e.Known.Newest()
	if e.told != nil && *e.told == last.Term {
		return
	}
	e.told = &last.Term
	atMost := e.left().Round(time.Millisecond).String()
	if last.Term == 0 {
		e.Log.Info("waiting because the ledger does not say who held the slot last", "slot", e.slot, "queue", e.t,
			"at_most", atMost)
		return
	}
	e.Log.Info("waiting for the last holder's release", "slot", e.slot, "term", last.Term, "host", last.Host,
		"at_most", atMost)
}

// awaitRecords takes what is pushed until the command may start.
func (e *entry) awaitRecords(ctx context.Context) error {
	enough := time.NewTimer(e.left())
	defer enough.Stop()
	for !e.Known.Over() {
		select {
		case d, open := <-e.Pushed():
			if !open {
				return fmt.Errorf("reading the ledger of %s was cut off: %w", e, lock.ErrUnknown)
			}
			e.Take(d)
			enough.Reset(e.left())
		case term := <-e.watch.requests:
			if term != 0 && term == e.Known.Newest().Term {
				e.Held.givenBack = true
				e.Avoided.Add(e.slot, givenBack, transport.ErrTaken)
				return lock.Errorf(lock.ErrFull, "%s: its holder lives and has asked for it back", e)
			}
		case <-enough.C:
			return nil
		case <-e.Lost():
			return e.Cause()
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for the last holder of %s: %w", e, ctx.Err())
		}
	}
	return nil
}
