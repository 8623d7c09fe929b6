package holding

import (
	"context"
	"errors"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// ledgerState is what the ledger of a slot that is held looks like.
type ledgerState string

const (
	recorded ledgerState = "recorded" // it has a record, or the successor has
	emptied  ledgerState = "emptied"  // it has none
	deleted  ledgerState = "deleted"  // a successor takes the slot for one that was never used
)

// verify asks the broker for A and, as B's owner, for B; and for the ledger, because a successor takes a slot without one
// for one that was never used.
func (h *Classic) verify(ctx context.Context) error {
	state, err := h.look(ctx)
	h.state = state
	if err == nil && state != recorded {
		return lock.Errorf(lock.ErrInDoubt, "%s is held, but its ledger %s was %s", h, h.t, state)
	}
	h.wasEmptied = h.wasEmptied && err != nil
	return err
}

// look asks the broker; see claim.Claim.Ask.
func (h *Classic) look(ctx context.Context) (ledgerState, error) {
	var state ledgerState
	err := h.Claim.Ask(ctx, func() (err error) {
		state, err = h.ask()
		return err
	})
	if err != nil {
		return recorded, err // the question may still write the state
	}
	return state, nil
}

func (h *Classic) ask() (ledgerState, error) {
	background := context.Background() // the channels are patient
	if err := h.Claim.JudgeExistence(h.find(background)); err != nil {
		return recorded, err
	}
	reader := h.reader.Load()
	if reader != nil && !h.Claim.Ours() {
		// The reader's place is the only claim, until B is ours: a policy may have dropped the record that would prove
		// it.
		err := reader.Prove(h.unclaimed)
		switch {
		case err != nil && h.Claim.Ours():
		case errors.Is(err, lock.ErrLost):
			// No proof: others wait for our release. B is being claimed.
			return recorded, lock.Errorf(lock.ErrUnknown, "cannot verify %s: %s", h, err.Error())
		default:
			return recorded, h.judgeReader(err)
		}
	}
	if reader != nil && h.Claim.Started() {
		<-h.takeBEnded // with the reader's place, the records are in hand
	}
	if err := h.Claim.Prove(background); err != nil || !h.Claim.Started() {
		return recorded, err
	}
	// A ledger that cannot be reached from here may be within reach of a successor, where a cluster is split: only its
	// answer is proof.
	abandoned, messages, err := h.Claim.Side().Abandoned(background, h.t) // the successor has the records in hand
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return deleted, nil
	case errors.Is(err, transport.ErrTaken):
		return recorded, lock.Errorf(lock.ErrUnknown,
			"cannot verify %s: its ledger %q was replaced by a queue of another owner; delete that", h, h.t)
	case abandoned:
		return emptied, nil
	case err == nil && messages >= names.LedgerFull:
		h.Writer.WarnOfFlood(h.t)
	}
	return recorded, h.Claim.Judge(err, "")
}
