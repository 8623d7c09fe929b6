package holding

import (
	"context"
	"time"

	"berth/lock/rabbit/claim"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

const (
	// takeBAfter is how long a command has run before its holder claims B and lets the next one read. A command
	// that ends before that costs neither.
	takeBAfter = 100 * time.Millisecond

	// Pauses between attempts to claim a B that the last holder is deleting.
	firstClaimPause = 5 * time.Millisecond
	maxClaimPause   = time.Second

	claimOverTimeout = time.Second
)

// takeB exchanges the reader's place for B, once the command has run for a moment. Until B is ours the place is the
// only claim. It ends with that, with the place, or with Release.
func (h *Classic) takeB(reader *ledger.Reader) {
	defer close(h.takeBEnded)
	select {
	case <-time.After(h.Env.TakeBAfter):
	case <-h.Claim.Life().Done():
		return
	case <-reader.View().Ended:
	}
	if !h.Claim.Ours() && !h.claimAfterStart(reader) {
		h.Waiter.PassOn()
		return
	}
	if h.claimed(); h.Claim.Life().Err() != nil {
		return // Release gives both back in one write
	}
	// The channel may have been closed meanwhile, which gives the reader's place back too.
	if err := reader.GiveBack(context.Background()); err != nil {
		h.Log.Debug("the ledger was not given back cleanly", "queue", h.t, "error", err)
	}
	h.reader.Store(nil)
	h.Waiter.PassOn()
	h.Waiter.Leave()
}

// claimAfterStart claims B. It reports false if it is not ours and there is nothing more to wait for.
func (h *Classic) claimAfterStart(reader *ledger.Reader) bool {
	ended := reader.View().Ended
	pauses := transport.Pauses(firstClaimPause, maxClaimPause)
	for tries := 1; ; tries++ {
		err := h.Claim.Take(context.Background()) // the channel is patient
		switch afterClaim(err, h.Claim.Conn().Broken(), transport.IsClosed(ended), reader.Deleted, tries) {
		case claimed:
			return true
		case connectionGone:
			_ = h.Claim.Dropped()
			return false
		case successorRuns:
			_ = h.Claim.Lose("its ledger was deleted, and another berth has its queue")
			return false
		case nothingLeft:
			_ = h.Claim.Doubt(reader.Lost().Error() + ", and " + err.Error())
			return false
		case tellOwner:
			h.claimOver()
		case cannotClaim:
			h.Log.Debug("cannot claim the slot's queue yet", "queue", h.b, "error", err)
		case claimAgain:
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ended:
		case <-h.Claim.Life().Done():
			return false
		}
	}
}

// claimOver asks the owner of B for it. An earlier holder may have it, whose host stood still and its clock with it: it
// learns so that a newer command runs.
func (h *Classic) claimOver() {
	ctx, cancel := context.WithTimeout(h.Claim.Life(), claimOverTimeout)
	defer cancel()
	if _, err := h.Session.Lender.Publish(ctx, h.b, claim.ReclaimRequest(h.Term())); err != nil {
		h.Log.Debug("cannot ask for the slot's queue", "queue", h.b, "error", err)
	}
}
