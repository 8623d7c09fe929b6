package holding

import (
	"context"
	"errors"
	"time"

	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// backTimeout is for how long a holder that has written its record again waits for it, before it writes it once
// more: a reader that has come since then has not taken the first one for a sign of life.
const backTimeout = 500 * time.Millisecond

// repair has the record and its copy come to the reader, on another connection or channel where that is necessary: a
// waiter that has the place steps back.
func (h *quorum) repair(ctx context.Context) (proven bool, err error) {
	if h.Claim.Cause() == nil {
		return false, h.writeAgain(ctx, h.reader.Load())
	}
	return false, h.reconnect(ctx)
}

func (h *quorum) reconnect(ctx context.Context) error {
	if err := h.connect(ctx); err != nil {
		return err
	}
	side := h.Session.Side()
	h.Claim.Wait() // what was asked before
	if err := h.comeBack(ctx); err != nil {
		return err
	}
	if err := h.writeAgain(ctx, h.next); err != nil {
		return err
	}
	if h.next.View().Disowned() {
		return h.Claim.Lose("its guard has released it")
	}
	h.work.Wait() // that watched the last reader
	h.reader.Store(h.next)
	h.next.Keep()
	h.Claim.Renew(side)
	h.watch(h.next)
	h.next = nil
	h.reclaimed()
	return nil
}

// connect connects again where that is necessary: over the node that answers, if one was found.
func (h *quorum) connect(ctx context.Context) error {
	found := h.elsewhere(true)
	if found == nil {
		return h.Session.Connect(ctx)
	}
	h.next = found
	return h.Session.ConnectOver(ctx, found.Channel())
}

// comeBack consumes from the ledger, behind its reader. To give up an answer costs no place any more where only
// the consumer has ended, and a leader that hangs may give none before the deadline.
func (h *quorum) comeBack(ctx context.Context) error {
	h.Session.Main().BePatient(false)
	last := h.reader.Load()
	if h.next != nil {
		if last = h.next; !transport.IsClosed(last.View().Ended) {
			return nil
		}
	}
	if err := last.Close(ctx); err != nil { // only its consumer may have ended
		return err
	}
	next, err := ledger.Return(ctx, h.Session.Main(), h.t, h.visitor())
	if errors.Is(err, transport.ErrNoQueue) {
		// The berth that makes it again waits for as long as any holder may live.
		return h.Claim.Lose("its ledger was deleted")
	}
	if err == nil {
		h.next = next
	}
	return err
}

// writeAgain is writeBoth where the last ones have not come. While the ledger has no majority nothing comes; what comes
// without them says that a policy is in the way.
func (h *quorum) writeAgain(ctx context.Context, reader *ledger.Reader) error {
	h.lookElsewhere(reader)
	ended := reader.View().Ended
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the node that is written over may be the silent one
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := h.writeBoth(ctx, reader)
	if err == nil && reader.Vanished() {
		h.miss()
	}
	return err
}

// writeBoth writes the record and its copy, and waits until they have come.
func (h *quorum) writeBoth(ctx context.Context, reader *ledger.Reader) error {
	return reader.Renew(ctx, backTimeout, func() error {
		if err := h.Writer.Write(ctx, h.t, h.written(h.holding())); err != nil {
			return err
		}
		h.recorded = time.Now()
		return h.writeCopy(ctx)
	})
}

// rewriteTimeout bounds the writing of a record again: the proof that it follows is not to be late.
const rewriteTimeout = time.Second

// rewrite replaces the record and its copy by new ones, and has all others delivered again. What fails is tried again
// after another while.
func (h *quorum) rewrite() {
	ctx, cancel := context.WithTimeout(context.Background(), rewriteTimeout)
	defer cancel()
	reader := h.reader.Load()
	if err := h.writeBoth(ctx, reader); err != nil {
		h.Log.Debug("the record was not written anew", "queue", h.t, "error", err)
	}
	reader.Freshen()
	h.recorded = time.Now()
	// A policy may delete queues that nobody uses (expires), and a look is no use of one on several nodes.
	if _, _, err := h.Session.Side().Get(ctx, h.a); err != nil {
		h.Log.Debug("the slot's queue was not used", "queue", h.a, "error", err)
	}
}
