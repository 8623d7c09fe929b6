package holding

import (
	"context"
	"errors"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

const (
	// settleAfter is how long a command has run before its holder claims B and lets the
	// next one to the door. A command that ends before that costs neither.
	settleAfter = 100 * time.Millisecond

	// Pauses between attempts to claim a B that the last holder is deleting.
	firstClaimPause   = 5 * time.Millisecond
	longestClaimPause = time.Second
)

// settle exchanges the place at the door for B, once the command has run for a moment.
// Until B is ours the door is the only claim. It ends with that, with the door, or with
// Release.
func (h *Held) settle(door *ledger.Door) {
	defer close(h.settled)
	select {
	case <-time.After(h.Env.Settle):
	case <-h.ended:
		return
	case <-door.Ended():
	}
	if !h.claimAfterStart(door) {
		h.Waiter.PassOn()
		return
	}
	// The channel may have been closed meanwhile, which gives the door back too.
	if err := door.GiveBack(context.Background()); err != nil {
		h.Log.Debug("the ledger was not given back in order", "queue", h.t, "error", err)
	}
	h.mu.Lock()
	h.door = nil
	h.mu.Unlock()
	h.Waiter.PassOn()
	h.Waiter.Leave()
}

// claimAfterStart claims B. It reports false if it is not ours and there is nothing more
// to wait for.
func (h *Held) claimAfterStart(door *ledger.Door) bool {
	if _, claim := h.place(); claim != nil {
		return true
	}
	pauses := transport.Pauses(firstClaimPause, longestClaimPause)
	for {
		err := h.claimB(context.Background()) // the channel is patient
		switch {
		case err == nil:
			return true
		case h.conn().Broken():
			_ = h.dropped()
			return false
		case transport.IsClosed(door.Ended()) && door.Deleted() && errors.Is(err, transport.ErrTaken):
			// Who takes a slot without a ledger for one that was never used starts at once.
			_ = h.lose("its ledger was deleted, and its queue is somebody else's")
			return false
		case transport.IsClosed(door.Ended()):
			_ = h.note(lock.Errorf(lock.ErrInDoubt, "%s: %s, and %s", h, door.Lost(), err.Error()))
			return false
		case !errors.Is(err, transport.ErrTaken):
			h.Log.Debug("cannot claim the slot's queue yet", "queue", h.b, "error", err)
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-door.Ended():
		case <-h.ended:
			return false
		}
	}
}

// claimB claims B and has it watched.
func (h *Held) claimB(ctx context.Context) error {
	side := h.present().channel // also if the session has another connection by now
	if err := side.Claim(ctx, h.b); err != nil {
		return err
	}
	consumer, err := consume(ctx, side, h.b, true)
	if err != nil {
		return err
	}
	h.observe(consumer, side)
	return nil
}

// proveB proves that B is ours: only its owner may look at it, or consume from it.
func (h *Held) proveB(ctx context.Context) error {
	if _, claim := h.place(); claim.watch != nil {
		return h.present().channel.Find(ctx, h.b)
	}
	main := h.Session.Main()
	consumer, err := consume(ctx, main, h.b, false)
	if err != nil {
		return err
	}
	h.observe(consumer, main)
	return nil
}

// observe has B watched, on a channel of the connection that owns it.
func (h *Held) observe(consumer *transport.Consumer, channel *transport.Channel) {
	w := &watch{
		held: h, channel: channel, requests: make(chan uint64, 1), stopped: make(chan struct{}),
		done: make(chan struct{}),
	}
	h.mu.Lock()
	if h.claim == nil {
		h.claim = &claim{won: time.Now()}
	}
	h.claim.watch = w
	h.mu.Unlock()
	go w.run(consumer)
}
