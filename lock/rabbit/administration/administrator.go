// Package administration changes whether, and in how many slots, a lock exists: its queues A, under the
// administration mutex. It never holds a slot, but takes the reader's place of one for a moment to read its ledger.
package administration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

const (
	// adminPause is the mean pause of an administrator that waits for another. An action takes milliseconds to seconds.
	adminPause = 100 * time.Millisecond

	// foreignLook is how many attempts there are for each look whether it is an administrator that is waited for.
	foreignLook = 10
)

// administrator is lock.Administrator. Each action has a connection of its own: the administration mutex belongs to a
// connection, so it keeps the actions of one administrator apart as well.
type administrator struct {
	names  names.Names // as configured
	dialer *transport.Dialer
	seen   atomic.Pointer[[]names.Names] // of the types that the lock may have; nil: nobody has looked

	// Above 0: the lock has neither ledger nor line. For how long B of a slot has to be away until it is vacant.
	delay time.Duration
}

// action is one piece of administration. Its connection does not publish, so it works under an alarm.
type action struct {
	*administrator
	names     names.Names        // of the type that the lock has, as far as is known, or that it is to have
	channel   *transport.Channel // for all that is not published
	publisher *transport.Publisher
	muted     bool // it may not publish
	said      bool // the user was told that time is waited for
}

// New returns the administrator of a lock. It does no I/O. With a delay the lock has neither ledger nor line, and its
// slots are vacant once their B have been away for that; nothing is consumed.
func New(n names.Names, d *transport.Dialer, delay time.Duration) lock.Administrator {
	return &administrator{names: n, dialer: d, delay: delay}
}

// Close implements lock.Administrator. Each action has closed its connections.
func (a *administrator) Close() error { return nil }

// begin connects. The caller closes the action.
func (a *administrator) begin(ctx context.Context) (*action, error) {
	if !a.names.ID.Kind.Administered() {
		return nil, fmt.Errorf("%s exists only while it is held; there is nothing to administer", a.names.ID)
	}
	if err := a.names.ID.Check(); err != nil {
		return nil, err
	}
	c, err := a.dialer.Dial(ctx, "administration")
	if err != nil {
		return nil, err
	}
	publisher := transport.NewPublisher(a.dialer, "publisher")
	return &action{administrator: a, names: a.names, channel: c.Channel(), publisher: publisher}, nil
}

// close closes the connections of an action, if it is one, and with them gives back what they own. It does not wait
// for an answer if ctx is over.
func (a *action) close(ctx context.Context) {
	if a == nil {
		return
	}
	a.publisher.Close()
	a.channel.Conn().End(ctx)
}

// Slots implements lock.Administrator. It changes nothing and therefore does not wait for other administrators.
func (a *administrator) Slots(ctx context.Context) (int, error) {
	act, err := a.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer act.close(ctx)
	if err := act.detectType(ctx); err != nil {
		return 0, err
	}
	return act.count(ctx)
}

// Flags implements lock.Administrator.
func (a *administrator) Flags() []string {
	seen := a.seen.Load()
	if a.names.Type != "" || seen == nil || len(*seen) > 1 {
		return nil
	}
	if of := (*seen)[0]; of.HandsOut() {
		return []string{"--queue-type " + string(of.Type)}
	}
	return nil // as where none is asked for
}

// detectType finds out of which type the lock's queues are. Those of a lock that does not exist are as they were when
// it did. Where this administrator has not seen that, they may have been of any, whatever was asked for: what was asked
// for says how the next lock is to be.
func (a *action) detectType(ctx context.Context) error {
	if a.delay > 0 { // it has one type
		a.seen.Store(&[]names.Names{a.administrator.names})
		return nil
	}
	n, err := slots.DetectType(ctx, a.channel, a.administrator.names)
	seen := a.seen.Load()
	switch {
	case err == nil:
		seen = &[]names.Names{n}
	case !errors.Is(err, lock.ErrAbsent):
		return err
	case seen == nil:
		seen = &[]names.Names{n.Of(names.Classic), n.Of(names.Quorum)}
	}
	if n.Type == "" || len(*seen) == 1 {
		n = (*seen)[0]
	}
	a.seen.Store(seen)
	a.names = n
	return nil
}

// forEachType makes a change that removes slots for each type of queues that the lock may have.
func (a *action) forEachType(remove func() (left int, err error)) (left int, err error) {
	for _, n := range *a.seen.Load() {
		a.names = n
		if left, err = remove(); err != nil {
			break
		}
	}
	return left, err
}

func (a *action) count(ctx context.Context) (int, error) {
	n, err := slots.Count(ctx, a.channel, a.names)
	if err != nil {
		return 0, fmt.Errorf("cannot count the slots of %s: %w", a.names.ID, err)
	}
	return n, nil
}

// enter takes the administration mutex.
func (a *action) enter(ctx context.Context) error {
	queue := a.names.Administration()
	for met := 0; ; met++ { // how often somebody else was at work
		err := a.channel.Claim(ctx, queue)
		if !errors.Is(err, transport.ErrTaken) {
			if err != nil && met > 0 && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", lock.ErrBusy, ctx.Err())
			}
			return err
		}
		if met%foreignLook == 0 && a.channel.Find(ctx, queue) == nil {
			return a.names.Foreign(queue)
		}
		if met == 0 {
			a.dialer.Log.Info("another administrator is changing this lock; waiting for it")
		}
		if err := transport.Sleep(ctx, rand.N(2*adminPause)); err != nil {
			return fmt.Errorf("%w: %w", lock.ErrBusy, err)
		}
	}
}
