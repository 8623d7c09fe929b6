package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock/rabbit/names"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/transport"
)

// Drawer has the tokens that one contender has in hand, through all its connections. It draws them, waits for one, and
// gives them back; the one that it keeps while a command may run is Held. Its methods are called one at a time.
// NewDrawer makes it.
type Drawer struct {
	Queue    string        // K
	Length   int32         // K is made with it where it is missing; 0: only administration makes it
	Priority int           // as a waiter, 0 to lock.MaxPriority, or one more: it takes over
	Renewal  time.Duration // how often a token that is kept is delivered again
	Log      hclog.Logger

	session  *session.Session
	channel  *transport.Channel  // nil before the first use
	consumer *transport.Consumer // nil: it does not wait
	consumed atomic.Int64        // how many consumers there were
	drawn    []Token             // in hand
}

// NewDrawer returns one that has no token.
func NewDrawer(n names.Names, priority int, s *session.Session, log hclog.Logger) *Drawer {
	return &Drawer{
		Queue: n.Tokens(), Length: declared(n), Priority: priority, Renewal: Renewal, Log: log, session: s,
	}
}

// declared is the length with which a consumer of K declares it: 0 for one that is replicated, which is declared where
// it is missing only.
func declared(n names.Names) int32 {
	if n.Replicated() {
		return 0
	}
	return names.TokensLength
}

// tag returns the tag of another consumer. A quorum queue of RabbitMQ 3.10 forgets one that has the tag of one that was
// just cancelled and had messages in hand.
func (d *Drawer) tag() string { return fmt.Sprintf("%s %d", d.Queue, d.consumed.Add(1)) }

// UseQueue has the drawer take tokens from the queue of these names from now on. What it has of another one it gives
// back.
func (d *Drawer) UseQueue(ctx context.Context, n names.Names) error {
	if d.Queue == n.Tokens() {
		return nil
	}
	if d.channel != nil {
		if err := d.channel.Close(ctx); err != nil {
			return err
		}
	}
	d.Queue, d.Length, d.channel, d.consumer, d.drawn = n.Tokens(), declared(n), nil, nil, nil
	return nil
}

// at returns the channel on the session's present connection. What was in hand on another one is back in its queue.
func (d *Drawer) at() *transport.Channel {
	conn := d.session.Conn()
	switch {
	case d.channel == nil || d.channel.Conn() != conn:
		d.channel, d.consumer, d.drawn = conn.Channel(), nil, nil
	case d.channel.Closed():
		d.consumer, d.drawn = nil, nil
	}
	return d.channel
}

// Draw returns a token that is in hand and was not tried, or takes one that nobody has. Errors: transport.ErrNoQueue,
// lock.ErrDenied, lock.ErrUnknown, lock.ErrUnreachable, that of ctx.
func (d *Drawer) Draw(ctx context.Context, tried []Token) (t Token, found bool, err error) {
	channel := d.at()
	if err := d.leave(ctx); err != nil { // or it would be handed another one
		return Token{}, false, err
	}
	for _, t := range d.drawn {
		if !slices.ContainsFunc(tried, t.Same) {
			return t, true, nil
		}
	}
	m, found, err := channel.Get(ctx, d.Queue)
	if err != nil || !found {
		return Token{}, false, err
	}
	t = read(m)
	d.drawn = append(d.drawn, t)
	return t, true, nil
}

// Same reports whether both are one delivery.
func (t Token) Same(other Token) bool { return t.delivery.DeliveryTag == other.delivery.DeliveryTag }

// Await waits until a token has come, and for no longer than patience. That it was woken for nothing is no error.
// Errors: as Draw.
func (d *Drawer) Await(ctx context.Context, patience time.Duration) (woken bool, err error) {
	channel := d.at()
	if len(d.drawn) > 0 {
		return true, nil
	}
	if d.consumer == nil {
		d.consumer, err = channel.Consume(ctx, d.Queue, transport.Consumption{
			Create: d.Length, Quorum: d.Length == 0, Priority: int32(2 * d.Priority), Prefetch: 1, Tag: d.tag()})
		if err != nil {
			d.consumer = nil
			return false, err
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m, open := <-d.consumer.Deliveries:
		if !open {
			d.consumer = nil
			return false, errEnded
		}
		d.drawn = append(d.drawn, read(m))
		return true, d.leave(ctx)
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		_ = d.leave(leaving)
		return false, ctx.Err()
	case <-channel.Conn().Done():
		return false, channel.Conn().BrokenError(fmt.Sprintf("cannot wait for a message of queue %q", d.Queue))
	}
}

// leaveTimeout bounds how long a wait that is given up takes to leave nothing behind. After it the connection is cut.
const leaveTimeout = 2 * time.Second

// errEnded says that the broker has ended the consumer: the queue was deleted, or its channel closed.
var errEnded = errors.New("the consumer was ended")

// Ended reports whether Await failed because the broker has ended the consumer.
func Ended(err error) bool { return errors.Is(err, errEnded) }

// leave ends the wait: what is in hand needs no consumer, and no other token is to come. A consumer without one may be
// given it at that moment. A quorum queue then counts it as delivered to a consumer that nobody has any more, until the
// channel is closed.
func (d *Drawer) leave(ctx context.Context) error {
	if d.consumer == nil {
		return nil
	}
	consumer := d.consumer
	d.consumer = nil
	if len(d.drawn) == 0 {
		return d.channel.Close(ctx)
	}
	return consumer.Cancel(ctx)
}

// Remove removes a token from the queue.
func (d *Drawer) Remove(t Token) {
	t.remove()
	d.drawn = slices.DeleteFunc(d.drawn, t.Same)
}

// PutBack gives back all tokens in hand. They are in the queue again once it returns, unless the connection is gone.
func (d *Drawer) PutBack(ctx context.Context) error {
	channel := d.at()
	if len(d.drawn) == 0 {
		return nil
	}
	d.consumer, d.drawn = nil, nil
	return channel.Close(ctx)
}

// Keep takes a drawn token from the drawer, and keeps it while a command may run; the others are given back.
func (d *Drawer) Keep(t Token) *Held {
	channel := d.at()
	for _, other := range slices.DeleteFunc(d.drawn, t.Same) {
		other.putBack()
	}
	d.channel, d.consumer, d.drawn = nil, nil, nil // this one is the token's now
	return newHeld(d, channel, t)
}
