package session

import (
	"context"
	"errors"
	"strings"

	"berth/lock"
)

// Permitted returns lock.ErrDenied if the user may not make a queue: who waits for one that others hold would learn of
// it from nobody, until it is free. It tries that once, with a queue of a name that nobody else has and that the same
// permissions are for: the broker writes into its log what it refuses. Whatever else goes wrong is no refusal.
func (s *Session) Permitted(ctx context.Context, queue, mark string) error {
	if s.permitted {
		return nil
	}
	s.permitted = true
	err := s.Side().Claim(ctx, mark)
	if err == nil {
		_ = s.Side().Remove(ctx, mark) // it goes with the connection otherwise
	}
	if errors.Is(err, lock.ErrDenied) {
		return lock.Errorf(lock.ErrDenied, "%s", strings.ReplaceAll(err.Error(), mark, queue))
	}
	return nil
}
