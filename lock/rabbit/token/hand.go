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

// Hand is the tokens that one contender has in hand, through all its connections. It draws them, waits for one, and
// gives them back; the one that it keeps while a command may run is Kept. Its methods are called one at a time. NewHand
// makes it.
type Hand struct {
	Queue    string        // K
	Length   int32         // K is made with it where it is missing; 0: only administration makes it
	Priority int           // as a waiter, 0 to lock.MaxPriority, or one more: it takes over
	Renewal  time.Duration // how often a token that is kept is delivered anew
	Log      hclog.Logger

	session  *session.Session
	channel  *transport.Channel  // nil before the first use
	consumer *transport.Consumer // nil: it does not wait
	consumed atomic.Int64        // how many consumers there were
	drawn    []Token             // in hand
}

// NewHand returns an empty hand.
func NewHand(n names.Names, priority int, s *session.Session, log hclog.Logger) *Hand {
	return &Hand{
		Queue: n.Tokens(), Length: declared(n), Priority: priority, Renewal: Renewal, Log: log, session: s,
	}
}

// declared is with which length whoever consumes from K declares it: 0 for one that is replicated, which is declared
// where it is missing only.
func declared(n names.Names) int32 {
	if n.Replicated() {
		return 0
	}
	return names.TokensLength
}

// tag returns the tag of another consumer. A quorum queue of RabbitMQ 3.10 forgets one that has the tag of one that was
// just cancelled and had messages in hand.
func (h *Hand) tag() string { return fmt.Sprintf("%s %d", h.Queue, h.consumed.Add(1)) }

// UseQueue has the hand take tokens from the queue of these names from now on. What it has of another one it gives
// back.
func (h *Hand) UseQueue(ctx context.Context, n names.Names) error {
	if h.Queue == n.Tokens() {
		return nil
	}
	if h.channel != nil {
		if err := h.channel.Close(ctx); err != nil {
			return err
		}
	}
	h.Queue, h.Length, h.channel, h.consumer, h.drawn = n.Tokens(), declared(n), nil, nil, nil
	return nil
}

// at returns the channel on the session's present connection. What was in hand on another one is back in its queue.
func (h *Hand) at() *transport.Channel {
	conn := h.session.Conn()
	switch {
	case h.channel == nil || h.channel.Conn() != conn:
		h.channel, h.consumer, h.drawn = conn.Channel(), nil, nil
	case h.channel.Closed():
		h.consumer, h.drawn = nil, nil
	}
	return h.channel
}

// Draw returns a token that is in hand and was not tried, or takes one that nobody has. Errors: transport.ErrNoQueue,
// lock.ErrDenied, lock.ErrUnknown, lock.ErrUnreachable, that of ctx.
func (h *Hand) Draw(ctx context.Context, tried []Token) (t Token, found bool, err error) {
	channel := h.at()
	if err := h.leave(ctx); err != nil { // or it would be handed another one
		return Token{}, false, err
	}
	for _, t := range h.drawn {
		if !slices.ContainsFunc(tried, t.Same) {
			return t, true, nil
		}
	}
	d, found, err := channel.Get(ctx, h.Queue)
	if err != nil || !found {
		return Token{}, false, err
	}
	t = read(d)
	h.drawn = append(h.drawn, t)
	return t, true, nil
}

// Same reports whether both are one delivery.
func (t Token) Same(other Token) bool { return t.delivery.DeliveryTag == other.delivery.DeliveryTag }

// Await waits until a token has come, and for no longer than patience. That it was woken for nothing is no error.
// Errors: as Draw.
func (h *Hand) Await(ctx context.Context, patience time.Duration) (woken bool, err error) {
	channel := h.at()
	if len(h.drawn) > 0 {
		return true, nil
	}
	if h.consumer == nil {
		h.consumer, err = channel.Consume(ctx, h.Queue, transport.Consumption{
			Create: h.Length, Quorum: h.Length == 0, Priority: int32(2 * h.Priority), Prefetch: 1, Tag: h.tag()})
		if err != nil {
			h.consumer = nil
			return false, err
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case d, open := <-h.consumer.Deliveries:
		if !open {
			h.consumer = nil
			return false, errEnded
		}
		h.drawn = append(h.drawn, read(d))
		return true, h.leave(ctx)
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		_ = h.leave(leaving)
		return false, ctx.Err()
	case <-channel.Conn().Done():
		return false, channel.Conn().BrokenError(fmt.Sprintf("cannot wait for a message of queue %q", h.Queue))
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
func (h *Hand) leave(ctx context.Context) error {
	if h.consumer == nil {
		return nil
	}
	consumer := h.consumer
	h.consumer = nil
	if len(h.drawn) == 0 {
		return h.channel.Close(ctx)
	}
	return consumer.Cancel(ctx)
}

// Remove removes a token from the queue.
func (h *Hand) Remove(t Token) {
	t.remove()
	h.drawn = slices.DeleteFunc(h.drawn, t.Same)
}

// PutBack gives back all tokens in hand. They are in the queue again once it returns, unless the connection is gone.
func (h *Hand) PutBack(ctx context.Context) error {
	channel := h.at()
	if len(h.drawn) == 0 {
		return nil
	}
	h.consumer, h.drawn = nil, nil
	return channel.Close(ctx)
}

// Keep takes a drawn token out of the hand, and keeps it while a command may run; the others are given back.
func (h *Hand) Keep(t Token) *Kept {
	channel := h.at()
	for _, other := range slices.DeleteFunc(h.drawn, t.Same) {
		other.putBack()
	}
	h.channel, h.consumer, h.drawn = nil, nil, nil // this one is the token's now
	return newKept(h, channel, t)
}
