// Package holding is the successor for a slot of a lock that is made of queues A, B and T, and then holds it: it takes
// the reader's place, waits for the last holder, claims B once the command runs, verifies, reclaims and gives back. It
// does not know how a slot is found.
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
	"berth/lock/rabbit/transport"
)

const (
	// unusable is for how long a contender leaves a slot alone whose ledger it could not use, and tries the others.
	unusable = 10 * time.Second
	// hesitation is for how long a waiter whose predecessor's ledger says nothing leaves a slot alone that is held: its
	// holder has recorded itself again by then.
	hesitation = time.Second
)

// Holder is what the holdings of one contender have in common. Its methods are called one at a time.
type Holder struct {
	Names   names.Names      // of the queues of the lock
	Session *session.Session // whose connection owns what is claimed
	Writer  *ledger.Writer   // of the records
	Waiter  *line.Waiter     // which passes slots on
	Skipped *slots.Skipped   // shared with the search for slots
	Finder  *slots.Finder    // of other slots, for a successor
	Inbox   *request.Inbox   // for what comes to the queues of a slot and is not about holding it
	Host    string           // for the ledger
	PID     int
	Env     Env
	Log     hclog.Logger
	// What leaves in the same write as the release of a holding, see transport.Batch.First. nil: nothing.
	Leaving func()
	// The id of a holding that has come to nothing. It may have been recorded all the same, and the next one is to know
	// that record for its own.
	unproven string
	highest  uint64 // the highest term that was written
	// The handover delay of holders that this contender has known and not seen released, by slot: should the ledger be
	// deleted, nobody else knows of them.
	unreleased map[int]time.Duration
}

// Env is what tests replace. NewEnv makes it.
type Env struct {
	MaxLease   time.Duration // how long a holder may live of which the ledger says nothing
	Young      time.Duration // how long a ledger may be lost again after it was made
	TakeBAfter time.Duration // for how long a command has run before B is claimed
}

// NewEnv returns what berth works with.
func NewEnv() Env { return Env{MaxLease: ledger.MaxLease, Young: young, TakeBAfter: takeBAfter} }

// Claim claims a slot that nobody holds. Where slots.LostRace says so of the error, the slot is somebody else's or
// being removed. With now it returns slots.ErrMustWait for a slot in which a command could not be started at once.
func (l *Holder) Claim(ctx context.Context, slot int, now bool) (*Held, error) {
	return l.enter(ctx, slot, now, false)
}

// Succeed makes this contender the successor for a slot, which may be free or not. Errors: as Claim;
// transport.ErrTaken if the slot has a successor.
func (l *Holder) Succeed(ctx context.Context, slot int) (*Held, error) {
	return l.enter(ctx, slot, false, true)
}

func (l *Holder) enter(ctx context.Context, slot int, now, successor bool) (*Held, error) {
	if why := l.Skipped.Why(slot); why != nil {
		return nil, why
	}
	l.unproven = cmp.Or(l.unproven, rand.Text())
	h := l.newHeld(slot, l.unproven)
	err := h.becomeReader(ctx)
	if err == nil {
		err = h.enter(ctx, now, successor)
	}
	if err == nil || h.Term() != 0 {
		l.unproven = ""
	}
	if err == nil {
		return h, nil
	}
	if !errors.Is(err, transport.ErrTaken) {
		l.skipUnusable(ctx, slot, err)
	}
	leaving, cancel := ledger.Finishing(ctx)
	defer cancel()
	_ = h.Release(leaving) // nothing may stay behind, and what was read must be back before it is missed
	switch what := fmt.Sprintf("cannot take slot %d of %s", slot, l.Names.ID); {
	case h.Term() != 0:
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return nil, fmt.Errorf("%s: %w", what, ctx.Err())
	case ctx.Err() == nil && h.Claim.Conn().Broken():
		return nil, h.Claim.Conn().BrokenError(what)
	}
	return nil, err
}

// skipUnusable leaves the slot alone for a while if it is its ledger that is in the way: other slots may be free.
func (l *Holder) skipUnusable(ctx context.Context, slot int, err error) {
	passing := slots.LostRace(err) || errors.Is(err, slots.ErrMustWait) || !l.Session.Usable() ||
		ctx.Err() != nil
	if l.Names.ID.Kind == lock.Semaphore && !passing {
		l.Skipped.Add(slot, unusable, lock.Errorf(lock.ErrUnknown, "%s", err.Error()))
	}
}
