package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Priority int           // as a waiter, 0 to lock.MaxPriority, or one more: it takes over
	Renewal  time.Duration // how often a token that is kept is delivered anew
	Log      hclog.Logger

	session  *session.Session
	channel  *transport.Channel  // nil before the first use
	consumer *transport.Consumer // nil: it does not wait
	drawn    []Token             // in hand
}

// NewHand returns an empty hand.
func NewHand(queue string, priority int, s *session.Session, log hclog.Logger) *Hand {
	return &Hand{Queue: queue, Priority: priority, Renewal: Renewal, Log: log, session: s}
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
			Create: names.TokensLength, Priority: int32(2 * h.Priority), Prefetch: 1})
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
		if err := h.leave(leaving); err == nil {
			_ = h.PutBack(leaving)
		}
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

// leave ends the wait: what is in hand needs no consumer, and no other token is to come.
func (h *Hand) leave(ctx context.Context) error {
	if h.consumer == nil {
		return nil
	}
	consumer := h.consumer
	h.consumer = nil
	if err := consumer.Cancel(ctx); err != nil {
		return err
	}
	for d := range consumer.Deliveries {
		h.drawn = append(h.drawn, read(d))
	}
	if len(h.drawn) == 0 {
		return consumer.PutBack(0) // what comes after the answer reaches nobody
	}
	return nil
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
	for _, t := range h.drawn {
		t.putBack()
	}
	h.drawn = nil
	if err := channel.Find(ctx, h.Queue); err != nil && !errors.Is(err, transport.ErrNoQueue) {
		return err // it is answered once they are back
	}
	return nil
}

// Keep takes a drawn token out of the hand, and keeps it while a command may run; the others are given back.
func (h *Hand) Keep(ctx context.Context, t Token) *Kept {
	channel := h.at()
	h.drawn = slices.DeleteFunc(h.drawn, t.Same)
	if err := h.PutBack(ctx); err != nil {
		h.Log.Debug("tokens not given back in order", "queue", h.Queue, "error", err)
	}
	h.channel, h.consumer = nil, nil // this one is the token's now
	return newKept(h, channel, t)
}
