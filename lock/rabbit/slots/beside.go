package slots

import (
	"context"
	"errors"
	"time"

	"berth/lock/rabbit/transport"
)

// notAgain is for how long a successor for a slot is not sent to the same other one twice: it may have got there
// in vain.
const notAgain = time.Minute

// Beside returns a slot other than this one that seems to be free, for the successor for this one; 0: none is known.
// Each call looks at a few, the next one at those behind them.
func (f *Finder) Beside(ctx context.Context, slot int) (free int) {
	if f.Limit == 1 {
		return 0
	}
	f.known = max(f.known, slot)
	last := min(f.Limit, LargestBatch) // see Free
	from := 1 + f.beside%f.known
	to := min(from+maxWaitable-1, f.known)
	f.beside = to
	queues := Queues(f.Names.Holds, from, to)
	if f.known < last {
		queues = append(queues, f.Names.Exists(f.known+1)) // which may have been made since
	}
	found, err := f.Session.Probe(ctx, queues)
	if err != nil {
		return 0
	}
	for i, b := range found[:to-from+1] {
		if other := from + i; b == transport.Absent && other != slot && f.Free(ctx, other) {
			return other
		}
	}
	made := found[to-from+1:]
	for range maxWaitable {
		if len(made) == 0 || made[0] != transport.Present {
			return 0
		}
		if f.known++; f.Free(ctx, f.known) {
			return f.known
		}
		if made = nil; f.known < last {
			made, _ = f.Session.Probe(ctx, []string{f.Names.Exists(f.known + 1)})
		}
	}
	return 0
}

// Free reports whether a slot seems to be free, and to have no successor.
func (f *Finder) Free(ctx context.Context, slot int) bool {
	if f.Skipped.Why(slot) != nil || slot == f.sent && time.Since(f.sentAt) < notAgain {
		return false
	}
	found, err := f.Session.Probe(ctx, []string{f.Names.Exists(slot), f.Names.Holds(slot)})
	if err != nil || found[0] != transport.Present || found[1] != transport.Absent {
		return false
	}
	_, readers, err := f.Session.Side().Count(ctx, f.Names.Ledger(slot))
	nobody := err == nil && readers == 0 || errors.Is(err, transport.ErrNoQueue)
	if !nobody || slot > LargestBatch { // looking for a gap would take too long for one that has a release to wait for
		return false
	}
	gap, err := f.Gap(ctx, slot)
	return err == nil && gap == 0
}

// Sent says that a successor for another slot goes to this one, which is free.
func (f *Finder) Sent(slot int) { f.sent, f.sentAt = slot, time.Now() }
