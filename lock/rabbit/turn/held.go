package turn

import (
	"context"

	"berth/lock"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/token"
)

// Held is lock.Held: a slot, and its token. The slot is what is verified; the token only keeps others from trying.
type Held struct {
	*holding.Held
	Token *token.Kept
}

var _ lock.Held = (*Held)(nil)

// Verify implements lock.Held. It sees to the token as well.
func (h *Held) Verify(ctx context.Context) error {
	err := h.Held.Verify(ctx)
	if err == nil {
		h.Token.Tend()
	}
	return err
}

// Reclaim implements lock.Held. The broker has handed the token on if the connection was lost.
func (h *Held) Reclaim(ctx context.Context) error {
	err := h.Held.Reclaim(ctx)
	if err == nil {
		h.Token.Tend()
	}
	return err
}

// Release implements lock.Held. The token leaves with the release: whoever gets it needs longer to the door.
func (h *Held) Release(ctx context.Context) error {
	err := h.Held.Release(ctx)
	if back := h.Token.Return(ctx); err == nil {
		err = back
	}
	return err
}
