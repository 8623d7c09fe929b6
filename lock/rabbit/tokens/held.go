package tokens

import (
	"context"
	"errors"
	"time"

	"berth/lock"
	"berth/lock/rabbit/token"
	"berth/lock/rabbit/transport"
)

// Place is a slot that is held, however.
type Place interface {
	lock.Held
	Over() bool // Release has ended
	Wait()      // waits for what runs beside it, once the connection is closed
}

// Held is lock.Held: a slot, and its token. The slot is what is verified; the token only keeps others from trying.
type Held struct {
	Place
	Token *token.Held
}

var _ lock.Held = (*Held)(nil)

// handBackPause is for how long nobody else is to try a slot whose holder wants it back: longer than the pauses with
// which that one asks. Each who has the token would have to be asked again. On quorum queues the reader's place is left
// before.
const handBackPause = 500 * time.Millisecond

// Ready implements lock.Held.
func (h *Held) Ready(ctx context.Context) error {
	err := h.Place.Ready(ctx)
	if errors.Is(err, lock.ErrFull) {
		_ = transport.Sleep(ctx, handBackPause)
	}
	return err
}

// Verify implements lock.Held. It sees to the token as well.
func (h *Held) Verify(ctx context.Context) error {
	err := h.Place.Verify(ctx)
	if err == nil {
		h.Token.Tend()
	}
	return err
}

// Reclaim implements lock.Held. The broker has handed the token on if the connection was lost.
func (h *Held) Reclaim(ctx context.Context) error {
	err := h.Place.Reclaim(ctx)
	if err == nil {
		h.Token.Tend()
	}
	return err
}

// Release implements lock.Held. The token leaves with the release: the berth that gets it needs longer to take the
// reader's place.
func (h *Held) Release(ctx context.Context) error {
	err := h.Place.Release(ctx)
	if back := h.Token.Return(ctx); err == nil {
		err = back
	}
	return err
}
