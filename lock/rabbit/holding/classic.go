package holding

import (
	"context"
	"time"

	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/slots"
)

// Classic is what proves a slot of queues A, B and T: the reader's place, then B, owned by the session's connection.
//
// It has the reader's place before the command starts (enter.go, wait.go) and while the command is young, B after
// that (takeb.go), and B on another connection where the first one broke (reclaim.go). In the end both go back
// (leave.go).
type Classic struct {
	*Held

	takeBEnded chan struct{}   // closed when takeB has ended; valid after the start
	unclaimed  context.Context // over once B was claimed after the start
	claimed    context.CancelFunc

	state      ledgerState // of the ledger, as verify has seen it; used in verify and repair
	wasEmptied bool        // the ledger had no record and was written again; likewise
	asked      int         // how often the owner of B was asked for it; used in repair

	// Written before the start only.
	records  []ledger.Holding // that the ledger may have of this holding, in the order of their terms
	made     time.Time        // when the ledger was made for this holding; zero: it was not
	mayStart bool             // nobody has to end any more
	out      bool             // it waits away from the reader's place
	alone    time.Time        // since when it waits with B, most of it away from the reader's place; zero: it does not
}

func newClassic(of *Held) *Classic {
	h := &Classic{Held: of, takeBEnded: make(chan struct{})}
	h.unclaimed, h.claimed = context.WithCancel(context.Background())
	return h
}

// exists finds out whether the slot is there. After the claim of B or of the reader's place: who removes a slot looks
// at these after that.
func (h *Classic) exists(ctx context.Context) error {
	if h.a == "" {
		return nil
	}
	return slots.Find(ctx, h.Session, h.Claim.Side(), h.a)
}

func (h *Classic) wait() { h.Claim.Wait() }
