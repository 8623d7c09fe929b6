// Package administration changes whether, and in how many slots, a lock exists: its queues A, under the
// administration mutex. It never holds a slot, but stands at the door of one for a moment to read its ledger.
package administration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	id     lock.ID
	names  names.Names
	dialer *transport.Dialer

	life context.Context // over once it is closed
	end  context.CancelFunc
}

// action is one piece of administration. Its connection does not publish, so it works under an alarm.
type action struct {
	*administrator
	conn      *transport.Conn
	channel   *transport.Channel
	publisher *transport.Publisher
	muted     bool        // it may not publish
	spare     func() bool // has the end of the administrator not end it
}

// New returns the administrator of a lock. It does no I/O.
func New(n names.Names, d *transport.Dialer) lock.Administrator {
	a := &administrator{id: n.ID, names: n, dialer: d}
	a.life, a.end = context.WithCancel(context.Background())
	return a
}

// Close implements lock.Administrator. It breaks off what is under way.
func (a *administrator) Close() error {
	a.end()
	return nil
}

// begin connects. The caller closes the action.
func (a *administrator) begin(ctx context.Context) (*action, error) {
	if !a.id.Kind.Administered() {
		return nil, fmt.Errorf("%s exists only while it is held; there is nothing to administer", a.id)
	}
	if err := a.id.Check(); err != nil {
		return nil, err
	}
	c, err := a.dialer.Dial(ctx, "administration")
	if err != nil {
		return nil, err
	}
	return &action{
		administrator: a, conn: c, channel: c.Channel(), publisher: transport.NewPublisher(a.dialer, "publisher"),
		spare: context.AfterFunc(a.life, c.Abandon),
	}, nil
}

// close closes the connections, and with them gives back what they own. It does not wait for an answer if ctx is over.
func (a *action) close(ctx context.Context) {
	a.spare()
	a.publisher.Close()
	a.conn.End(ctx)
}

// Slots implements lock.Administrator. It changes nothing and therefore does not wait for other administrators.
func (a *administrator) Slots(ctx context.Context) (int, error) {
	act, err := a.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer act.close(ctx)
	return act.count(ctx)
}

func (a *action) count(ctx context.Context) (int, error) {
	n, err := slots.Count(ctx, a.channel, a.names)
	if err != nil {
		return 0, fmt.Errorf("cannot count the slots of %s: %w", a.id, err)
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
			a.dialer.Log.Info("another administrator is at work on this lock; waiting for it", "lock", a.id.Name)
		}
		if err := transport.Sleep(ctx, rand.N(2*adminPause)); err != nil {
			return fmt.Errorf("%w: %w", lock.ErrBusy, err)
		}
	}
}

// leave gives the administration mutex back. Where that fails the end of the connection does it.
func (a *action) leave(ctx context.Context) {
	if err := a.channel.Remove(ctx, a.names.Administration()); err != nil {
		a.conn.Abandon()
	}
}
