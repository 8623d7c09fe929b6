package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"berth/lock"
)

const (
	// adminPause is the mean pause of an administrator that waits for another.
	// An action takes milliseconds to seconds.
	adminPause = 100 * time.Millisecond

	// foreignLook is how many attempts there are for each look whether it is an
	// administrator that is waited for.
	foreignLook = 10
)

// administrator is lock.Administrator. Each action has a connection of its own:
// the administration mutex belongs to a connection, so it keeps the actions of
// one administrator apart as well.
type administrator struct {
	id     lock.ID
	names  names
	dialer *dialer

	mu      sync.Mutex
	actions map[*action]bool // under way; guarded by mu
	closed  bool             // guarded by mu
}

// action is one piece of administration. Its connection does not publish, so it
// works under an alarm.
type action struct {
	*administrator
	conn    *conn
	line    line
	courier *courier // publishes, so it has a connection of its own; opened when first needed
	muted   bool     // it may not publish
}

// begin connects. The caller ends the action.
func (a *administrator) begin(ctx context.Context) (*action, error) {
	if !a.id.Kind.Administered() {
		return nil, fmt.Errorf("%s exists only while it is held; there is nothing to administer", a.id)
	}
	if err := checkID(a.id); err != nil {
		return nil, err
	}
	c, err := a.dialer.dial(ctx, "administration")
	if err != nil {
		return nil, err
	}
	act := &action{administrator: a, conn: c, line: line{conn: c}}
	act.courier = newCourier(func(ctx context.Context) (*conn, error) { return a.dialer.dial(ctx, "courier") })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.actions[act] = true
	return act, nil
}

// end closes the connections, and with them gives back what they own. It does
// not wait for an answer if ctx is over.
func (a *action) end(ctx context.Context) {
	a.courier.close()
	if ctx.Err() != nil || a.conn.broken() {
		a.conn.abandon()
		<-a.conn.done
	} else {
		a.conn.close()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.actions, a)
}

// Slots implements lock.Administrator. It changes nothing and therefore does
// not wait for other administrators.
func (a *administrator) Slots(ctx context.Context) (int, error) {
	act, err := a.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer act.end(ctx)
	n, err := act.count(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot count the slots of %s: %w", a.id, err)
	}
	return n, nil
}

// Close implements lock.Administrator. It breaks off what is under way.
func (a *administrator) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for act := range a.actions {
		act.conn.abandon()
	}
	return nil
}

// over reports whether the administrator was closed.
func (a *administrator) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// enter takes the administration mutex.
func (a *action) enter(ctx context.Context) error {
	queue := a.names.administration()
	for met := 0; ; met++ { // how often somebody else was at work
		err := a.line.claim(ctx, queue)
		if !errors.Is(err, errTaken) {
			if err != nil && met > 0 && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", lock.ErrBusy, ctx.Err())
			}
			return err
		}
		if met%foreignLook == 0 && a.line.find(ctx, queue) == nil {
			return a.names.foreign(queue)
		}
		if met == 0 {
			a.dialer.log.Info("another administrator is at work on this lock; waiting for it", "lock", a.id.Name)
		}
		if err := sleep(ctx, rand.N(2*adminPause)); err != nil {
			return fmt.Errorf("%w: %w", lock.ErrBusy, err)
		}
	}
}

// leave gives the administration mutex back. Where that fails the end of the
// connection does it.
func (a *action) leave(ctx context.Context) {
	if err := a.line.remove(ctx, a.names.administration()); err != nil {
		a.conn.abandon()
	}
}

// count asks about one slot after the other up to the first that is absent: what
// lies beyond a gap is a leftover and no slot. Halving distances would take
// leftovers for slots. A thousand answers take a tenth of a second.
func (a *action) count(ctx context.Context) (int, error) {
	for slot := 1; slot <= lock.MaxSlots; slot++ {
		ok, err := a.has(ctx, slot)
		if err != nil {
			return 0, err
		}
		if !ok {
			return slot - 1, nil
		}
	}
	return lock.MaxSlots, nil
}

func (a *action) has(ctx context.Context, slot int) (bool, error) {
	err := a.line.find(ctx, a.names.exists(slot))
	if errors.Is(err, errNoQueue) {
		return false, nil
	}
	if errors.Is(err, errTaken) {
		err = lock.Errorf(lock.ErrUnknown, "%s; delete that foreign queue", err.Error())
	}
	return err == nil, err
}

// sleep pauses, or returns the error of ctx when it ends first.
func sleep(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
