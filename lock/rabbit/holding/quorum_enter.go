package holding

import (
	"context"
	"errors"
	"time"

	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// rewriteInterval is how often a record and its copy are written again. consumer_timeout ends the consumer that has a
// copy in hand for 30 minutes: this leaves time for two attempts more. And before RabbitMQ 4.3 the log of a quorum
// queue keeps all that has happened since its oldest message was written: with a proof each second, 0.9 to 1 kB of log,
// it stays below 5 MB.
const rewriteInterval = 10 * time.Minute

// enter takes the place, and records this holding.
func (h *quorum) enter(ctx context.Context, now, _ bool) error {
	main := h.Session.Main()
	reader, err := ledger.EnterReplicated(ctx, main, h.t, h.visitor())
	if errors.Is(err, transport.ErrNoQueue) {
		if err := h.find(ctx); err != nil {
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
	if err := h.find(ctx); err != nil {
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

// free reports whether nobody else's tree can be alive, as far as the ledger says.
func (h *quorum) free(known ledger.View) bool {
	return quorumSituation{empty: h.reader.Load().Empty}.free(known)
}

// miss notes that the own record was not delivered again, though something later was. Once, that may be chance.
func (h *quorum) miss() {
	if h.missed++; h.missed > 1 {
		h.Writer.WarnOfPolicy(h.t, "a record was not delivered again")
	}
}

// noteDelay notes whether records come back late.
func (h *quorum) noteDelay(reader *ledger.Reader) {
	if h.delays++; !reader.Delayed() {
		h.delays = 0
	} else if h.delays > 1 {
		h.Writer.WarnOfPolicy(h.t, "records come back late")
	}
}

// record records this holding under a new term. Once the record has come back, the next berth in the reader's place
// reads it. It goes on for a moment when ctx has ended.
func (h *quorum) record(ctx context.Context) error {
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

// writeCopy writes the copy of the record.
func (h *quorum) writeCopy(ctx context.Context) error {
	r := h.written(h.holding())
	r.Copy = true
	return h.Writer.Write(ctx, h.t, r)
}

// delay is how long a successor of those who are not released has to wait; 0: it need not.
func (h *quorum) delay(known ledger.View) time.Duration {
	if h.reader.Load().Empty || known.Doubt().Any { // no release shortens that
		return max(h.Env.MaxLease, known.Wait(h.lease))
	}
	return known.Wait(h.lease)
}
