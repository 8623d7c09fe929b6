// Package holding holds the slot of a lock that is made of queues A and B: it claims
// B, waits for the last holder by the ledger, verifies, reclaims and gives back. It
// does not know how a slot to claim is found.
package holding

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

const (
	// givenBack is for how long a newcomer leaves a slot alone that it has given
	// back to its holder.
	givenBack = time.Second

	// unusable is for how long a contender leaves a slot alone whose ledger it could
	// not use, and tries the others.
	unusable = 10 * time.Second
)

// Holder is what the holdings of one contender have in common. Its methods are called
// one at a time.
type Holder struct {
	Names   names.Names      // of the queues of the lock
	Session *session.Session // whose connection owns what is claimed
	Writer  *ledger.Writer   // of the records
	Waiter  *line.Waiter     // which passes slots on
	Avoided *slots.Avoided   // shared with whoever looks for slots
	Host    string           // for the ledger
	PID     int
	Env     Env
	Log     hclog.Logger

	policy       sync.Once // of warnOfPolicy
	userMismatch bool      // the broker does not know us by the user of our URL
}

// Env is what tests replace. NewEnv makes it.
type Env struct {
	Young time.Duration // how long a ledger may be lost again after it was made
	User  string        // that we give for ourselves; "": that of the URL
}

// NewEnv returns what berth works with.
func NewEnv() Env { return Env{Young: young} }

// Claim claims a slot and proves that it is ours. Where slots.LostRace says so of the
// error, it is somebody else's or being removed. With atOnce it returns
// slots.ErrMustWait for a slot in which a command could not be started at once.
func (l *Holder) Claim(ctx context.Context, slot int, atOnce bool) (*Held, error) {
	if why := l.Avoided.Why(slot); why != nil {
		return nil, why
	}
	b, claims := l.Names.Holds(slot), l.Session.Claims()
	r := ledger.NewReader(claims, l.Names.Ledger(slot), rand.Text())
	err := r.Claim(ctx, b)
	switch {
	case errors.Is(err, transport.ErrTaken):
		return nil, err
	case err != nil && r.Claimed():
		l.avoidUnusable(ctx, slot, err)
	case err != nil:
	case l.Names.ID.Kind.Administered():
		err = claims.Find(ctx, l.Names.Exists(slot))
	}
	if !r.Claimed() && errors.Is(err, lock.ErrDenied) {
		return nil, err // so B is not ours
	}
	if err == nil && atOnce {
		if err = r.Rest(ctx); err == nil && !l.vacant(r) {
			err = slots.ErrMustWait
		}
	}
	if err == nil {
		var h *Held
		if h, err = l.hold(ctx, slot, r); err == nil {
			return h, nil
		}
	}
	// The claim must not stay behind, and what was read must be back before it is gone.
	undo := r.PutBack(ctx)
	if undo == nil {
		undo = claims.Remove(ctx, b)
	}
	if undo != nil && !slots.LostRace(undo) {
		claims.Conn().Abandon()
	}
	if claims.Conn().Broken() && ctx.Err() == nil {
		return nil, claims.Conn().BrokenError(fmt.Sprintf("cannot take slot %d of %s", slot, l.Names.ID))
	}
	return nil, err
}

// avoidUnusable leaves the slot alone for a while if it is its ledger that is in
// the way: other slots may be free.
func (l *Holder) avoidUnusable(ctx context.Context, slot int, err error) {
	passing := errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrLost) ||
		!l.Session.Connected() || ctx.Err() != nil
	if l.Names.ID.Kind == lock.Semaphore && !passing {
		l.Avoided.Add(slot, unusable, lock.Errorf(lock.ErrUnknown, "%s", err.Error()))
	}
}

// vacant reports whether nothing of the last holder can be alive, by a ledger
// that was read to its end.
func (l *Holder) vacant(r *ledger.Reader) bool {
	return r.Known.Over() || r.Created() && r.Known.Newest().Term == 0 && !l.Session.Returned()
}

// warnOfPolicy says once why every handover takes so long.
func (l *Holder) warnOfPolicy(queue, why string) {
	l.policy.Do(func() {
		l.Log.Warn("the broker does not keep the records of who held the slot, so every handover takes the whole "+
			"handover delay; "+
			"exempt the queue from policies that set max-length, message-ttl or overflow (rabbitmqctl "+
			"list_policies, list_operator_policies)",
			"queue", queue, "because", why)
	})
}
