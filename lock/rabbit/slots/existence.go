package slots

import (
	"context"
	"errors"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// Count asks about one slot after the other up to the first that is absent, and returns how many there are: what lies
// beyond a gap is a leftover and no slot. Halving distances would take leftovers for slots. A thousand answers take a
// tenth of a second.
func Count(ctx context.Context, channel *transport.Channel, n names.Names) (int, error) {
	for slot := 1; slot <= lock.MaxSlots; slot++ {
		switch err := channel.Find(ctx, n.Exists(slot)); {
		case err == nil:
		case errors.Is(err, transport.ErrNoQueue):
			return slot - 1, nil
		case errors.Is(err, transport.ErrTaken):
			return 0, lock.Errorf(lock.ErrUnknown, "%s; delete that foreign queue", err.Error())
		default:
			return 0, err
		}
	}
	return lock.MaxSlots, nil
}
