package rabbit

import (
	"context"
	"errors"

	"berth/lock"
)

// Probe asks the contender's courier about all these queues at once, and fails
// if the broker could not tell about one.
func Probe(ctx context.Context, l lock.Lock, queues ...string) error {
	found, err := l.(*contender).courier.probe(ctx, queues)
	for _, p := range found {
		if p == unknown {
			err = errors.Join(err, lock.ErrUnknown)
		}
	}
	return err
}
