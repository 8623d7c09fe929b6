package session

import (
	"context"
	"errors"

	"berth/lock"
)

// Permitted returns lock.ErrDenied if the user may not make a queue: who waits for one that others hold would learn of
// it from nobody, until it is free. It tries that once, with a queue of a name that nobody else has: the broker writes
// into its log what it refuses. Somebody may be permitted the lock's own queues alone, so a refusal of that one is none
// yet. Whatever else goes wrong is no refusal either.
func (s *Session) Permitted(ctx context.Context, queue, mark string) error {
	if s.permitted {
		return nil
	}
	err := s.Side().Claim(ctx, mark)
	if err == nil {
		_ = s.Side().Remove(ctx, mark) // it goes with the connection otherwise
	}
	if errors.Is(err, lock.ErrDenied) {
		err = s.Side().MayConfigure(ctx, queue)
	}
	s.permitted = !s.Conn().Broken()
	if errors.Is(err, lock.ErrDenied) {
		return err
	}
	return nil
}
