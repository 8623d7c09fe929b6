package holding

import (
	"context"
	"errors"
	"fmt"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// ledgerState is what the ledger of a slot that is held looks like.
type ledgerState string

const (
	recorded ledgerState = "recorded" // it has a record, or who is next has
	emptied  ledgerState = "emptied"  // it has none
	deleted  ledgerState = "deleted"  // a successor takes the slot for one that was never used
)

// Verify implements lock.Held. It asks the broker for A and, as B's owner, for B; and for the ledger, because a
// successor takes a slot without one for one that was never used.
func (h *Held) Verify(ctx context.Context) error {
	state, err := h.look(ctx)
	if err == nil && state != recorded {
		return lock.Errorf(lock.ErrInDoubt, "%s is held, but its ledger %s was %s", h, h.t, state)
	}
	h.wasEmptied = h.wasEmptied && err != nil
	return err
}

// look asks the broker. The question has no deadline: giving it up would mean to cut the connection, and the slot with
// it. When ctx ends first, it stays asked, and the next look waits for its end before it asks its own. Only an answer
// to its own question is proof for it that the slot is held: the other one was asked before the call began. A loss is
// a loss whoever asked.
func (h *Held) look(ctx context.Context) (state ledgerState, err error) {
	select {
	case <-h.asking:
	case <-ctx.Done():
		return recorded, h.unanswered(ctx)
	}
	if err = h.Cause(); err == nil && h.Conn().Broken() {
		err = h.Dropped()
	}
	if err != nil { // found out by an earlier question, or by the watch
		h.asking <- struct{}{}
		return recorded, err
	}
	type answer struct {
		state ledgerState
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		state, err := h.ask()
		answered <- answer{state, err}
		h.asking <- struct{}{}
	}()
	select {
	case a := <-answered:
		return a.state, a.err
	case <-ctx.Done():
		return recorded, h.unanswered(ctx)
	}
}

func (h *Held) unanswered(ctx context.Context) error {
	return fmt.Errorf("cannot verify %s: no answer from %s yet: %w: %w", h, h.Conn().Label(), lock.ErrUnknown,
		ctx.Err())
}

func (h *Held) ask() (ledgerState, error) {
	background := context.Background() // the channels are patient
	if h.a != "" {
		if err := h.JudgeExistence(h.Side().Find(background, h.a)); err != nil {
			return recorded, err
		}
	}
	door := h.door.Load()
	if door != nil && !h.Ours() {
		// The door is the only claim.
		err := door.Prove(background)
		if errors.Is(err, lock.ErrLost) {
			// No proof: others wait for our release. B is being claimed.
			return recorded, lock.Errorf(lock.ErrUnknown, "cannot verify %s: %s", h, err.Error())
		}
		return recorded, h.judgeDoor(err)
	}
	if door != nil && h.Started() {
		<-h.settled // with the door, the records are in hand
	}
	if err := h.Prove(background); err != nil || !h.Started() {
		return recorded, err
	}
	// A ledger that cannot be reached from here may be within reach of a successor, where a cluster is split: only its
	// answer is proof.
	records, next, err := h.Side().Count(background, h.t)
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return deleted, nil
	case errors.Is(err, transport.ErrTaken):
		return recorded, lock.Errorf(lock.ErrUnknown,
			"cannot verify %s: its ledger %q was replaced by a queue that somebody else owns; delete that", h, h.t)
	case err == nil && records == 0 && next == 0: // who is next has them in hand
		return emptied, nil
	}
	return recorded, h.Judge(err, "")
}
