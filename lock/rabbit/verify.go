package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
)

// check is one look at A and B on the holding connection. It has no deadline:
// giving it up would mean to cut the connection, and the slot with it. It ends
// with its answer or with the connection.
type check struct {
	done       chan struct{}
	err        error // valid after done
	unrecorded bool  // the slot is ours and its ledger is gone; valid after done
	empty      bool  // the slot is ours and its ledger has no record; valid after done
}

// Verify implements lock.Held. It asks the broker for A and, as B's owner, for
// B; and for the ledger, because a successor takes a slot without one for one
// that was never used. It is in doubt without a connection, and about a ledger
// that was deleted or purged.
func (h *held) Verify(ctx context.Context) error {
	c, err := h.prove(ctx)
	switch {
	case err != nil:
		return err
	case c.unrecorded:
		return lock.Errorf(lock.ErrInDoubt, "slot %d of %s is held, but its ledger %s was deleted", h.slot, h.l.id, h.t)
	case c.empty && h.wasEmpty:
		h.l.warnOfPolicy(h.t, "it is empty again although a command runs")
	case c.empty:
		return lock.Errorf(lock.ErrInDoubt, "slot %d of %s is held, but its ledger %s was emptied", h.slot, h.l.id, h.t)
	}
	h.wasEmpty = c.empty
	return nil
}

// Reclaim implements lock.Held. Without a connection it connects again and claims
// B again; with one it verifies, and records this holding in a ledger that does not
// have it. One that cannot be filled again does not cost the slot.
func (h *held) Reclaim(ctx context.Context) error {
	c, err := h.prove(ctx)
	switch {
	case errors.Is(err, lock.ErrInDoubt):
		return h.reclaim(ctx)
	case err != nil:
		return err
	case c.unrecorded:
		h.l.log.Warn("the slot's ledger was deleted; making it anew", "queue", h.t)
		if err := h.write(ctx, h.heldRecord(h.Term())); err != nil {
			return lock.Errorf(lock.ErrInDoubt, "slot %d of %s is held, but its ledger %s was deleted and cannot be made anew: %s", h.slot, h.l.id, h.t, err.Error())
		}
	case c.empty && !h.wasEmpty:
		h.recordAgain(ctx)
	}
	h.wasEmpty = c.empty
	return nil
}

// prove looks at the slot once; see check. ErrInDoubt: there is no connection.
//
// When ctx ends first, the question stays asked, and the next Verify waits for
// its answer before it asks its own. Only an answer to its own question is
// proof for it that the slot is held: the other question was asked before the
// call began. A loss is a loss whoever asked.
func (h *held) prove(ctx context.Context) (*check, error) {
	err := h.Cause()
	if err == nil && h.conn.broken() {
		err = h.dropped("the connection to " + h.conn.label + " " + h.conn.why())
	}
	if err != nil {
		return nil, err
	}
	if earlier := h.lastCheck(); earlier != nil {
		if err := h.await(ctx, earlier); errors.Is(err, lock.ErrLost) {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, h.unanswered(ctx)
	}
	c := h.ask()
	if err := h.await(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// againTimeout bounds the attempt to fill a ledger that was emptied. A successor
// waits for its own lease without the record, which may be shorter than ours.
const againTimeout = time.Second

// recordAgain records this holding in a ledger that somebody has purged. The slot is
// held whether or not that works, which it does not under an alarm of the broker.
func (h *held) recordAgain(ctx context.Context) {
	h.l.log.Warn("the slot's ledger was emptied; recording this holder again", "queue", h.t)
	bounded, cancel := context.WithTimeout(ctx, againTimeout)
	defer cancel()
	if err := h.write(bounded, h.heldRecord(h.Term())); err != nil {
		h.l.log.Debug("not recorded again", "queue", h.t, "error", err)
	}
}

// ask begins a check.
func (h *held) ask() *check {
	c := &check{done: make(chan struct{})}
	h.mu.Lock()
	h.check = c
	h.mu.Unlock()
	go c.run(h)
	return c
}

func (h *held) lastCheck() *check {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.check
}

func (h *held) await(ctx context.Context, c *check) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return h.unanswered(ctx)
	}
}

func (h *held) unanswered(ctx context.Context) error {
	return fmt.Errorf("cannot verify slot %d of %s: no answer from %s yet: %w: %w", h.slot, h.l.id, h.conn.label, lock.ErrUnknown, ctx.Err())
}

func (c *check) run(h *held) {
	defer close(c.done)
	if h.a != "" {
		if c.err = h.judge(h.checks.look(h.a), "the slot was removed"); c.err != nil {
			return
		}
	}
	if c.err = h.judge(h.checks.look(h.b), "its queue is gone"); c.err != nil || h.Term() == 0 {
		return
	}
	// A ledger that cannot be reached from here may be within reach of a successor,
	// where a cluster is split: only its answer is proof.
	records, followers, err := h.checks.state(h.t)
	switch {
	case errors.Is(err, errNoQueue):
		c.unrecorded = true
	case errors.Is(err, errTaken):
		c.err = lock.Errorf(lock.ErrUnknown, "cannot verify slot %d of %s: its ledger %q was replaced by a queue that somebody else owns; delete that", h.slot, h.l.id, h.t)
	case err != nil:
		c.err = h.judge(err, "")
	case followers > 0:
		c.err = lock.Errorf(lock.ErrUnknown, "cannot verify slot %d of %s: %s", h.slot, h.l.id, followed(h.t))
	default:
		c.empty = records == 0
	}
}

// judge says what an answer means for the slot. gone is what a missing queue
// means.
func (h *held) judge(err error, gone string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoQueue):
		return h.lose(gone)
	case errors.Is(err, errTaken):
		return h.lose("it is somebody else's")
	case errors.Is(err, lock.ErrUnreachable):
		return h.dropped("the connection to " + h.conn.label + " " + h.conn.why())
	default:
		return lock.Errorf(lock.ErrUnknown, "cannot verify slot %d of %s: %s", h.slot, h.l.id, err.Error())
	}
}
