// Package claim is queue B of one slot: claimed on a connection, watched there, asked back by another holder, given
// back. It tells whether a holding is lost, or in doubt because its connection is. It does not know when B is needed.
package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// Claim is what a holding claims of its slot. New makes it, without B. Its methods may be called from several
// goroutines, those that claim and give back one at a time.
type Claim struct {
	what   string                   // is claimed, for messages
	queue  string                   // B
	handle func(transport.Delivery) // nil: B is not consumed from
	log    hclog.Logger

	life context.Context // over once the claim has ended
	end  context.CancelFunc

	asking chan struct{} // has one token; the call that took it may ask whether the slot is held

	side    atomic.Pointer[transport.Channel] // of the connection that the holding is on
	watch   atomic.Pointer[watch]             // nil: B is not ours
	started atomic.Bool

	mu    sync.Mutex    // guards what follows
	lost  chan struct{} // closed together with setting cause
	cause error
}

// New returns a claim on a channel for what the broker may refuse. handle gets what comes to B and is not about the
// claim; it does not wait. Without it nothing is consumed: only the end of the connection is noticed without being asked
// for.
func New(what, queue string, side *transport.Channel, handle func(transport.Delivery), log hclog.Logger) *Claim {
	c := &Claim{
		what: what, queue: queue, handle: handle, log: log, lost: make(chan struct{}), asking: make(chan struct{}, 1),
	}
	c.asking <- struct{}{}
	c.life, c.end = context.WithCancel(context.Background())
	c.side.Store(side)
	return c
}

// Side returns the channel that claims.
func (c *Claim) Side() *transport.Channel { return c.side.Load() }

// Conn returns the connection that the holding is on.
func (c *Claim) Conn() *transport.Conn { return c.Side().Conn() }

// Lost implements lock.Held.
func (c *Claim) Lost() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// Cause implements lock.Held.
func (c *Claim) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Start is called when the command may be alive: the end of the connection is doubt from then on. Until the deadline
// the slot can be claimed again, because the successor waits for our release, or for as long as we may live.
func (c *Claim) Start() { c.started.Store(true) }

// Started reports whether the command may have been started.
func (c *Claim) Started() bool { return c.started.Load() }

// Lose says that there is proof of the loss, unless there was some before.
func (c *Claim) Lose(why string) error { return c.note(lock.ErrLost, why) }

// TakenOver says that somebody else's command runs in the slot.
func (c *Claim) TakenOver(why string) error { return c.note(lock.ErrOver, why) }

// Doubt says that the slot may be lost.
func (c *Claim) Doubt(why string) error { return c.note(lock.ErrInDoubt, why) }

// Dropped says that the connection is gone.
func (c *Claim) Dropped() error {
	why := fmt.Sprintf("the connection to %s %s", c.Conn().Label(), c.Conn().Why())
	if c.Started() {
		return c.Doubt(why)
	}
	return c.note(lock.ErrDisconnected, why)
}

// note keeps why the slot is lost or in doubt. Proof takes the place of doubt.
func (c *Claim) note(outcome error, why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil && (!errors.Is(outcome, lock.ErrLost) || errors.Is(c.cause, lock.ErrLost)) {
		return c.cause
	}
	if c.cause == nil && c.life.Err() == nil {
		close(c.lost)
	}
	c.cause = lock.Errorf(outcome, "%s: %s", c.what, why)
	return c.cause
}

// Judge says what an answer of the broker means for the slot. gone is what a missing queue means.
func (c *Claim) Judge(err error, gone string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrNoQueue):
		return c.Lose(gone)
	case errors.Is(err, transport.ErrTaken):
		return c.Lose("another berth has it")
	case errors.Is(err, lock.ErrUnreachable):
		return c.Dropped()
	default:
		return lock.Errorf(lock.ErrUnknown, "cannot verify %s: %s", c.what, err.Error())
	}
}

// JudgeExistence is Judge for an answer about A: without that the slot was removed.
func (c *Claim) JudgeExistence(err error) error {
	if errors.Is(err, transport.ErrNoQueue) {
		return c.note(lock.ErrRemoved, "the slot was removed")
	}
	return c.Judge(err, "")
}

// End makes everything that happens from now on no loss. It reports whether that was so before.
func (c *Claim) End() (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.life.Err() != nil
	c.end()
	return before
}

// Life is over once End was called.
func (c *Claim) Life() context.Context { return c.life }

// Take claims B and has it watched. Errors: as transport.Channel.Claim.
func (c *Claim) Take(ctx context.Context) error {
	side := c.Side()
	if err := side.Claim(ctx, c.queue); err != nil {
		return err
	}
	consumer, err := c.consume(ctx, side, true)
	if err == nil {
		c.follow(consumer, side)
	}
	return err
}

// consume consumes from B, unless nothing is to be consumed.
func (c *Claim) consume(ctx context.Context, side *transport.Channel, noWait bool) (*transport.Consumer, error) {
	if c.handle == nil {
		return nil, nil
	}
	return consume(ctx, side, c.queue, noWait)
}

// MoveTo has the claim go on with B on another connection, which owns it already. That ends the doubt. Wait comes
// before.
func (c *Claim) MoveTo(ctx context.Context, side *transport.Channel) error {
	consumer, err := c.consume(ctx, side, false)
	if err != nil {
		return err
	}
	c.Renew(side)
	c.follow(consumer, side)
	return nil
}

// Renew ends the doubt: the holding goes on on another connection.
func (c *Claim) Renew(side *transport.Channel) {
	c.side.Store(side)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost, c.cause = make(chan struct{}), nil
}

func (c *Claim) follow(consumer *transport.Consumer, side *transport.Channel) {
	w := &watch{Claim: c, channel: side, requests: make(chan uint64, 1), done: make(chan struct{})}
	w.life, w.stop = context.WithCancel(c.life)
	c.watch.Store(w)
	go w.run(consumer)
}

// Ours reports whether B is ours, as far as is known.
func (c *Claim) Ours() bool { return c.watch.Load() != nil }

// Requests receives the terms whose holders ask for the slot; nil if B is not ours.
func (c *Claim) Requests() <-chan uint64 {
	if w := c.watch.Load(); w != nil {
		return w.requests
	}
	return nil
}

// Presence is what is known of B before it is ours. Under an alarm a probe may not be answered; a look is, and the
// broker logs it where B is somebody's.
func (c *Claim) Presence(
	ctx context.Context, probe func(context.Context, string) (transport.Presence, error),
) (transport.Presence, error) {
	if found, err := probe(ctx, c.queue); err == nil {
		return found, nil
	}
	return c.Side().Look(ctx, c.queue)
}

// Prove proves that B is ours: only its owner may look at it.
func (c *Claim) Prove(ctx context.Context) error {
	return c.Judge(c.Side().Find(ctx, c.queue), "its queue is gone")
}

// GiveBack deletes B, if it is ours. That it is gone or somebody else's is fine too.
func (c *Claim) GiveBack(ctx context.Context) error {
	if !c.Ours() || c.Conn().Broken() {
		return nil
	}
	c.Unwatch()
	err := c.Side().Remove(ctx, c.queue)
	c.watch.Store(nil)
	if errors.Is(err, transport.ErrTaken) {
		return nil
	}
	return err
}

// Unwatch ends the watch of B on a connection that the claim is about to leave.
func (c *Claim) Unwatch() {
	if w := c.watch.Load(); w != nil {
		w.stop()
		<-w.done
	}
}

// Wait waits until B is not watched any more, and nothing is asked: the connection is closed, or the claim has ended.
func (c *Claim) Wait() {
	if w := c.watch.Load(); w != nil {
		<-w.done
	}
	<-c.asking
	c.asking <- struct{}{}
}
