// Package holding holds a slot: it takes it, waits until the command may start, verifies, reclaims and gives back. Held
// is the same for all locks; what proves that a slot is ours is not:
//
//   - [Classic] is for queues A, B and T: the reader's place of the ledger T, which the successor has, and B once the
//     command runs.
//   - quorum is for a ledger that is a quorum queue, on several nodes of a cluster. There is no queue B: the reader's
//     place, with the own record in hand, is the claim from the first moment to the last. The broker gives it to somebody
//     else when the holder's connection, or the node that it is connected to, is gone. The next reader finds the record
//     of a holder that is not released, and waits for as long as that one may live.
//   - plain is for queues A and B and nothing else, which other implementations of the A/B scheme have, too. It consumes
//     nothing. So nobody says when a command is dead: a berth that has won a slot always waits for the handover delay.
//     What it does not guarantee: nobody knows another holder's lease. One whose lease is longer than its successor's may
//     still run when that one starts.
//
// The package does not know how a slot is found, and relies on nobody for keeping others from it.
package holding

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
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/request"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/slots"
)

// Holder is what the holdings of one contender have in common. Its methods are called one at a time.
type Holder struct {
	Names   names.Names      // of the queues of the lock
	Plain   bool             // there are only A and B
	Session *session.Session // whose connection owns what is claimed
	Writer  *ledger.Writer   // of the records
	Waiter  *line.Waiter     // which passes slots on; used by Classic
	Skipped *slots.Skipped   // shared with the search for slots
	Finder  *slots.Finder    // of other slots, for a successor
	Inbox   *request.Inbox   // for what comes to the queues of a slot and is not about holding it
	Host    string           // for the ledger
	PID     int
	Env     Env
	Log     hclog.Logger

	// The id of a holding that has come to nothing. It may have been recorded all the same, and the next one is to know
	// that record for its own.
	unproven string
	highest  uint64 // the highest term that was written
	// The handover delay of holders that this contender has known and not seen released, by slot: should the ledger be
	// deleted, nobody else knows of them.
	unreleased map[int]time.Duration

	// Used by quorum.
	delays int // how many proofs in a row were delayed
	missed int // how often a record was not delivered again, though what was written after it was delivered
}

// Env is what tests replace. NewEnv makes it.
type Env struct {
	MaxLease        time.Duration // how long a holder may live of which the ledger says nothing
	Lease           time.Duration // zero: two heartbeats
	Young           time.Duration // how long a ledger may be lost again after it was made
	TakeBAfter      time.Duration // for how long a command has run before B is claimed
	RewriteInterval time.Duration // how often a record is written again that is kept
}

// NewEnv returns what berth works with.
func NewEnv() Env {
	return Env{MaxLease: ledger.MaxLease, Young: young, TakeBAfter: takeBAfter, RewriteInterval: rewriteInterval}
}

// Claim claims a slot that nobody holds. Where slots.LostRace says so of the error, the slot is somebody else's or
// being removed. With now it returns slots.ErrMustWait for a slot in which a command could not be started at once.
func (l *Holder) Claim(ctx context.Context, slot int, now bool) (*Held, error) {
	return l.take(ctx, slot, now, false)
}

// Succeed makes this contender the successor for a slot, which may be free or not. Errors: as Claim;
// transport.ErrTaken if the slot has a successor.
func (l *Holder) Succeed(ctx context.Context, slot int) (*Classic, error) {
	h, err := l.take(ctx, slot, false, true)
	if err != nil {
		return nil, err
	}
	return h.proof.(*Classic), nil
}

func (l *Holder) take(ctx context.Context, slot int, now, successor bool) (*Held, error) {
	if why := l.Skipped.Why(slot); why != nil {
		return nil, why
	}
	l.unproven = cmp.Or(l.unproven, rand.Text())
	h := l.newHeld(slot)
	err := h.proof.enter(ctx, now, successor)
	if err == nil || h.Term() != 0 {
		l.unproven = ""
	}
	if err == nil {
		return h, nil
	}
	leaving, cancel := ledger.Finishing(ctx)
	defer cancel()
	_ = h.release(leaving) // nothing may stay behind, and what was read must be back before it is missed
	switch what := "cannot take " + h.String(); {
	case ctx.Err() != nil:
		if h.Term() == 0 && !errors.Is(err, ctx.Err()) {
			return nil, fmt.Errorf("%s: %w", what, ctx.Err())
		}
	case l.Names.Replicated() && h.Claim.Conn().Abandoned() && h.reader.Load() == nil:
		return nil, lock.Errorf(lock.ErrUnreachable, "%s: queue %q does not answer; while nodes are down wait for them; if it "+
			"stays so with all nodes up (rabbitmq-queues quorum_status), end the commands of this lock, and delete that queue",
			what, h.t)
	case h.Claim.Conn().Broken(): // whatever was made of that
		return nil, h.Claim.Conn().BrokenError(what)
	}
	return nil, err
}
