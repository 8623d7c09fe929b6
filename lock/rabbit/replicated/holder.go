// Package replicated holds slots whose ledgers are quorum queues, on several nodes of a cluster. There is no queue B:
// the reader's place of the ledger, with the own record in hand, is the claim from the first moment to the last. The
// broker gives it to somebody else when the holder's connection, or the node that it is connected to, is gone. The next
// reader finds the record of a holder that is not released, and waits for as long as that one may live.
//
// It does not know how a slot is found, and relies on nobody for keeping others from the reader's place.
package replicated

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/request"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Holder is what the holdings of one contender have in common. Its methods are called one at a time.
type Holder struct {
	Names   names.Names      // of the queues of the lock
	Session *session.Session // whose connection has the reader's place
	Writer  *ledger.Writer   // of the records
	Skipped *slots.Skipped
	Inbox   *request.Inbox // for what comes to the ledger and is no record
	Host    string         // for the ledger
	PID     int
	Env     Env
	Log     hclog.Logger

	// What leaves in the same write as the release of a holding, see transport.Batch.First. nil: nothing.
	Leaving func()

	// The id of a holding that has come to nothing. It may have been recorded all the same.
	unproven string
	highest  uint64 // the highest term that was written

	delays int // how many proofs in a row were delayed
	missed int // how often a record was not delivered again, though what was written after it was delivered
}

// Env is what tests replace. NewEnv makes it.
type Env struct {
	MaxLease        time.Duration // how long a holder may live of which the ledger says nothing
	RewriteInterval time.Duration // how often a record is written again that is kept
}

// rewriteInterval is how often a record and its copy are written again. consumer_timeout ends the consumer that has a
// copy in hand for 30 minutes: this leaves time for two attempts more. And before RabbitMQ 4.3 the log of a quorum
// queue keeps all that has happened since its oldest message was written: with a proof each second, 0.9 to 1 kB of log,
// it stays below 5 MB.
const rewriteInterval = 10 * time.Minute

// NewEnv returns what berth works with.
func NewEnv() Env { return Env{MaxLease: ledger.MaxLease, RewriteInterval: rewriteInterval} }

// Claim takes the reader's place of a slot. Where slots.LostRace says so of the error, the slot is somebody else's or
// being removed. With now it returns slots.ErrMustWait for a slot in which a command could not be started at once.
func (l *Holder) Claim(ctx context.Context, slot int, now bool) (*Held, error) {
	if why := l.Skipped.Why(slot); why != nil {
		return nil, why
	}
	l.unproven = cmp.Or(l.unproven, rand.Text())
	h := l.newHeld(slot, l.unproven)
	err := h.enter(ctx, now)
	if err == nil || h.Term() != 0 {
		l.unproven = ""
	}
	if err == nil {
		return h, nil
	}
	leaving, cancel := ledger.Finishing(ctx)
	defer cancel()
	_ = h.Release(leaving) // nothing may stay behind, and what was read must be back before it is missed
	switch what := fmt.Sprintf("cannot take slot %d of %s", slot, l.Names.ID); {
	case h.Term() != 0:
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return nil, fmt.Errorf("%s: %w", what, ctx.Err())
	case ctx.Err() == nil && h.Claim.Conn().Abandoned() && h.reader.Load() == nil:
		return nil, lock.Errorf(lock.ErrUnreachable, "%s: queue %q does not answer; while nodes are down wait for them; if it "+
			"stays so with all nodes up (rabbitmq-queues quorum_status), end the commands of this lock, and delete that queue",
			what, h.t)
	case ctx.Err() == nil && h.Claim.Conn().Broken():
		return nil, h.Claim.Conn().BrokenError(what)
	}
	return nil, err
}

// enter takes the place, and records this holding.
func (h *Held) enter(ctx context.Context, now bool) error {
	main := h.Session.Main()
	reader, err := ledger.EnterReplicated(ctx, main, h.t, h.visitor())
	if errors.Is(err, transport.ErrNoQueue) {
		if err := h.exists(ctx); err != nil {
			return err
		}
		h.Log.Warn("the slot's ledger was deleted; making it again", "queue", h.t)
		err = main.CreateReplicated(ctx, h.t, names.ReplicatedLength, true)
		if err == nil || errors.Is(err, transport.ErrDiffers) { // somebody else, of another version, was faster
			reader, err = ledger.EnterReplicated(ctx, main, h.t, h.visitor())
		}
	}
	if err != nil {
		return err
	}
	h.reader.Store(reader)
	h.Writer.WarnOfDoubt(h.t, reader.View().Doubt())
	if err := h.exists(ctx); err != nil {
		return err
	}
	if reader.Empty {
		if err := h.onlyType(ctx); err != nil {
			return err
		}
	}
	if reader.View().Truncated() {
		h.Writer.WarnOfPolicy(h.t, "it has a release without the record that it belongs to")
	}
	if now && !h.free(reader.View()) {
		return slots.ErrMustWait
	}
	return h.record(ctx)
}

// onlyType makes sure that a mutex has no classic queues. A ledger with a record shows that somebody has made sure of that
// after it was made.
func (h *Held) onlyType(ctx context.Context) error {
	if h.Names.ID.Kind != lock.Mutex {
		return nil
	}
	_, err := slots.OfNoOtherType(ctx, h.Session, h.Names, false, true)
	return err
}

// free reports whether nobody else's tree can be alive, as far as the ledger says.
func (h *Held) free(known ledger.View) bool {
	return situation{empty: h.reader.Load().Empty}.free(known)
}

// miss notes that the own record was not delivered again, though something later was. Once, that may be chance.
func (h *Held) miss() {
	if h.missed++; h.missed > 1 {
		h.Writer.WarnOfPolicy(h.t, "a record was not delivered again")
	}
}

// noteDelay notes whether records come back late.
func (h *Held) noteDelay(reader *ledger.Reader) {
	if h.delays++; !reader.Delayed() {
		h.delays = 0
	} else if h.delays > 1 {
		h.Writer.WarnOfPolicy(h.t, "records come back late")
	}
}

// exists finds out whether the slot is there.
func (h *Held) exists(ctx context.Context) error { return h.Claim.Side().Find(ctx, h.a) }

// record records this holding under a new term. Once the record has come back, the next berth in the reader's place
// reads it. It goes on for a moment when ctx has ended.
func (h *Held) record(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := ledger.Finishing(ctx)
	defer cancel()
	reader := h.reader.Load()
	term, err := reader.Record(ctx, func(who ledger.Holding) error {
		h.handover, h.tried, h.highest = max(h.lease, h.delay(reader.View())), who, max(h.highest, who.Term)
		return h.Writer.Write(ctx, h.t, h.written(who))
	})
	if err != nil {
		return err
	}
	h.term.Store(term)
	reader.Prune()
	if err := h.writeCopy(ctx); err != nil {
		return err
	}
	h.recorded = time.Now()
	return h.judge(reader.AwaitCopies(ctx, copyTimeout))
}

// copyTimeout bounds the way of a record through the broker to oneself.
const copyTimeout = 5 * time.Second

// written is the record of this holding under a term.
func (h *Held) written(who ledger.Holding) ledger.Record { return who.Held(h.handover, h.Host, h.PID) }

// writeCopy writes the copy of the record.
func (h *Held) writeCopy(ctx context.Context) error {
	r := h.written(h.holding())
	r.Copy = true
	return h.Writer.Write(ctx, h.t, r)
}

// delay is how long a successor of those who are not released has to wait; 0: it need not.
func (h *Held) delay(known ledger.View) time.Duration {
	if h.reader.Load().Empty || known.Doubt().Any { // no release shortens that
		return max(h.Env.MaxLease, known.Wait(h.lease))
	}
	return known.Wait(h.lease)
}
