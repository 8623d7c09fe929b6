package holding

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// checks are the looks at A, B and the ledger of a slot that is held, on the session's
// side channel, which is a patient one by then.
type checks struct {
	held    *Held
	channel *transport.Channel
	mu      sync.Mutex
	last    *check // maybe unanswered; nil: there was none; guarded by mu
}

// check is one look. It has no deadline: giving it up would mean to cut the
// connection, and the slot with it. It ends with its answer or with the connection.
type check struct {
	done   chan struct{}
	err    error       // why the slot is not known to be held; valid after done
	ledger ledgerState // valid after done if err is nil
}

// ledgerState is what a check has seen of the ledger of a slot that is held.
type ledgerState int

const (
	recorded ledgerState = iota // it has a record
	emptied                     // it has none
	deleted                     // a successor takes the slot for one that was never used
)

// Verify implements lock.Held. It asks the broker for A and, as B's owner, for
// B; and for the ledger, because a successor takes a slot without one for one
// that was never used.
//
// When ctx ends first, the question stays asked, and the next Verify waits for
// its answer before it asks its own. Only an answer to its own question is
// proof for it that the slot is held: the other question was asked before the
// call began. A loss is a loss whoever asked.
func (h *Held) Verify(ctx context.Context) error {
	c, err := h.look(ctx)
	if err != nil {
		return err
	}
	switch c.ledger {
	case deleted:
		return lock.Errorf(lock.ErrInDoubt, "%s is held, but its ledger %s was deleted", h, h.t)
	case emptied:
		if h.wasEmptied {
			h.warnOfPolicy(h.t, "it is empty again although a command runs")
		}
		return lock.Errorf(lock.ErrInDoubt, "%s is held, but its ledger %s was emptied", h, h.t)
	}
	h.wasEmptied = false
	return nil
}

// look makes a check whose answer is nobody else's.
func (h *Held) look(ctx context.Context) (*check, error) {
	err := h.Cause()
	if err == nil && h.conn().Broken() {
		err = h.dropped()
	}
	if err != nil {
		return nil, err
	}
	if earlier := h.present().present(); earlier != nil {
		if err := h.await(ctx, earlier); errors.Is(err, lock.ErrLost) {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, h.unanswered(ctx)
	}
	c := h.present().begin()
	return c, h.await(ctx, c)
}

// begin begins a check.
func (s *checks) begin() *check {
	c := &check{done: make(chan struct{})}
	s.mu.Lock()
	s.last = c
	s.mu.Unlock()
	go c.run(s)
	return c
}

func (s *checks) present() *check {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// settle waits for the last check.
func (s *checks) settle() {
	if c := s.present(); c != nil {
		<-c.done
	}
}

func (h *Held) await(ctx context.Context, c *check) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return h.unanswered(ctx)
	}
}

func (h *Held) unanswered(ctx context.Context) error {
	return fmt.Errorf("cannot verify %s: no answer from %s yet: %w: %w", h, h.conn().Label(), lock.ErrUnknown,
		ctx.Err())
}

func (c *check) run(s *checks) {
	defer close(c.done)
	h, background := s.held, context.Background() // the channel is patient
	if h.a != "" {
		if c.err = h.judge(s.channel.Find(background, h.a), "the slot was removed"); c.err != nil {
			return
		}
	}
	if door, claim := h.place(); claim == nil && door != nil {
		// The door is the only claim.
		if c.err = door.Prove(background); errors.Is(c.err, lock.ErrLost) {
			// No proof: others wait for our release. B is being claimed.
			c.err = lock.Errorf(lock.ErrUnknown, "cannot verify %s: %s", h, c.err.Error())
		} else {
			c.err = h.judgeDoor(c.err)
		}
		return
	}
	if c.err = h.judge(s.channel.Find(background, h.b), "its queue is gone"); c.err != nil {
		return
	}
	if door, _ := h.place(); door != nil {
		return // and so are its records, which are about to go back
	}
	// A ledger that cannot be reached from here may be within reach of a successor,
	// where a cluster is split: only its answer is proof.
	records, next, err := s.channel.Count(background, h.t)
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		c.ledger = deleted
	case errors.Is(err, transport.ErrTaken):
		c.err = lock.Errorf(lock.ErrUnknown,
			"cannot verify %s: its ledger %q was replaced by a queue that somebody else owns; delete that", h, h.t)
	case err != nil:
		c.err = h.judge(err, "")
	case records == 0 && next == 0: // who is next has them in hand
		c.ledger = emptied
	}
}

// judge says what an answer means for the slot. gone is what a missing queue
// means.
func (h *Held) judge(err error, gone string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrNoQueue):
		return h.lose(gone)
	case errors.Is(err, transport.ErrTaken):
		return h.lose("it is somebody else's")
	case errors.Is(err, lock.ErrUnreachable):
		return h.dropped()
	default:
		return lock.Errorf(lock.ErrUnknown, "cannot verify %s: %s", h, err.Error())
	}
}
