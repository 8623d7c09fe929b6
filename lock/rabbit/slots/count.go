package slots

import (
	"context"
	"errors"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// firstBatch is how many slots a Counter probes first while it knows nothing of the lock.
const firstBatch = 16

// Counter counts the slots of one lock again and again, by probes. Counter{} has not counted yet.
type Counter struct {
	known   int                // slots that there were last time
	channel *transport.Channel // that gap was seen on
	gap     int                // the slot that is certain not to exist; 0: none
}

// Count returns how many slots there are. Probes that come back prove nothing: the node of a queue may be down. So it
// looks at the slot behind the last one, and no second time while the channel is the same, because the broker logs that
// as an error. Where probes are not answered, it looks at one slot after the other. Errors: as Count and
// transport.Lender.Probe.
func (c *Counter) Count(
	ctx context.Context, n names.Names, channel *transport.Channel, probes transport.Lender,
) (int, error) {
	if !n.ID.Kind.Administered() {
		return 1, nil
	}
	if c.channel != channel {
		c.channel, c.gap = channel, 0
	}
	limit := lock.MaxSlots
	if n.ID.Kind == lock.PersistentMutex {
		limit = 1
	}
	gap, err := c.firstAbsent(ctx, n, probes, limit)
	look := errors.Is(err, transport.ErrUnanswered)
	if err == nil && gap <= limit && gap != c.gap {
		err = channel.Find(ctx, n.Exists(gap))
		look = err == nil // it appeared just now, and others may have
		if errors.Is(err, transport.ErrNoQueue) {
			c.gap, err = gap, nil
		}
	}
	if look {
		gap, err = Count(ctx, channel, n)
		gap++
	}
	if err != nil {
		return 0, err
	}
	c.known = min(gap-1, limit)
	return c.known, nil
}

// firstAbsent returns the first slot whose A a probe has not found.
func (c *Counter) firstAbsent(ctx context.Context, n names.Names, probes transport.Lender, limit int) (int, error) {
	size := firstBatch
	if c.known > 0 {
		size = c.known + 1
	}
	for from := 1; from <= limit; from, size = from+size, LargestBatch {
		size = min(size, LargestBatch, limit-from+1)
		found, err := probes.Probe(ctx, Queues(n.Exists, from, from+size-1))
		if err != nil {
			return 0, err
		}
		for i, a := range found {
			if a == transport.Absent {
				return from + i, nil
			}
		}
	}
	return limit + 1, nil
}
