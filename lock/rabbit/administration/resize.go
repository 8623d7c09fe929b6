package administration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/token"
	"berth/lock/rabbit/transport"
)

const (
	// sweepTimeout bounds a look at what is going to be swept away, which is for the user only, and the waking of
	// waiters where the user has seen an error.
	sweepTimeout = 2 * time.Second

	// wakeTimeout bounds the waking of waiters. Where it does not work they find the slots at their next look, which
	// may be two minutes away.
	wakeTimeout = 10 * time.Second
)

// Resize implements lock.Administrator.
func (a *administrator) Resize(
	ctx context.Context, sweep int, target func(present int) (int, error),
) (before, after int, err error) {
	act, err := a.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer act.close(ctx)
	before, after, err = act.resize(ctx, sweep, target)
	if a.Line() != "" && (after > before || after == before && err == nil) {
		patience := wakeTimeout
		if err != nil {
			patience = sweepTimeout
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if err := act.wake(bounded, after); err != nil {
			a.dialer.Log.Warn("waiters could not be told of free slots; they may take two minutes to see them",
				"lock", a.ID.Name, "error", err)
		}
	}
	return before, after, err
}

func (a *action) resize(
	ctx context.Context, sweep int, target func(present int) (int, error),
) (before, after int, err error) {
	if err := a.enter(ctx); err != nil {
		return 0, 0, fmt.Errorf("cannot begin the administration of %s: %w", a.ID, err)
	}
	defer func() { // where it cannot be given back, the end of the connection does that
		if a.channel.Remove(ctx, a.Administration()) != nil {
			a.channel.Conn().Abandon()
		}
	}()
	before, err = a.count(ctx)
	if err != nil {
		return 0, 0, err
	}
	want, err := target(before)
	if err == nil {
		err = a.checkSize(want)
	}
	if err != nil {
		return before, before, err
	}
	after, err = a.shrink(ctx, before, want, sweep)
	if err == nil {
		after, err = a.grow(ctx, after, want)
	}
	if err == nil && a.ID.Kind == lock.TokenSemaphore {
		stock := token.Stock{Names: a.Names, Side: a.channel, Via: a.publisher.Via, Log: a.dialer.Log}
		err = stock.Mend(ctx, after, min(before, after))
	}
	return before, after, err
}

// wake calls a waiter for every slot that nobody holds: those that were just made, and those that an action made
// which was broken off before it came to this. It makes no more calls than there is room for.
func (a *action) wake(ctx context.Context, count int) error {
	if errors.Is(a.channel.Find(ctx, a.Line()), transport.ErrNoQueue) {
		return nil // nobody has ever waited
	}
	made := int32(0)
	for from := 1; from <= count; from += slots.LargestBatch {
		to := min(from+slots.LargestBatch-1, count)
		held, err := a.publisher.Probe(ctx, slots.Queues(a.Holds, from, to))
		if errors.Is(err, transport.ErrUnanswered) { // under an alarm one message gets through all the same
			held = make([]transport.Presence, to-from+1)
		} else if err != nil {
			return err
		}
		for i, b := range held {
			if b == transport.Present {
				continue
			}
			if made++; made > names.LineLength {
				return nil
			}
			w, err := a.publisher.Deliver(ctx, a.Line(), line.Call(from+i))
			if err != nil {
				return err
			} else if w != transport.Present {
				return errors.New("the broker has not taken a message to them")
			}
		}
	}
	return nil
}

func (a *administrator) checkSize(want int) error {
	limit := lock.MaxSlots
	if a.ID.Kind == lock.PersistentMutex {
		limit = 1
	}
	if want < 0 || want > limit {
		return fmt.Errorf("cannot give %s %d slots; choose 0 to %d", a.ID, want, limit)
	}
	return nil
}

// shrink deletes every slot above want, and sweep slots beyond the larger of both numbers, in descending order: so
// what is left has no gaps whenever it is interrupted. It returns how many slots are left.
//
// One slot beyond is always deleted: a leftover there would become a slot the moment its predecessor is made, and
// every leftover that follows it.
func (a *action) shrink(ctx context.Context, present, want, sweep int) (int, error) {
	last := max(present, want)
	top := min(last+max(sweep, 1), lock.MaxSlots)
	leftovers := a.leftovers(ctx, last+1, top)
	for slot := top; slot > want; slot-- {
		if err := a.channel.Remove(ctx, a.Exists(slot)); err != nil {
			return min(present, slot), a.interrupted("remove", slot, min(present, slot), err)
		}
	}
	if len(leftovers) > 0 {
		a.dialer.Log.Warn("leftovers beyond the last slot were removed; their holders lose them", "lock", a.ID.Name,
			"slots", fmt.Sprint(leftovers))
	}
	return min(present, want), nil
}

// leftovers returns which of the slots from..to exist, none where the broker does not say: it is asked for the user's
// sake only.
func (a *action) leftovers(ctx context.Context, from, to int) (there []int) {
	bounded, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	found, err := a.publisher.Probe(bounded, slots.Queues(a.Exists, from, to))
	if err != nil {
		a.dialer.Log.Debug("not known whether there are leftovers", "lock", a.ID.Name, "error", err)
	}
	for i := range found {
		if found[i] == transport.Present {
			there = append(there, from+i)
		}
	}
	return there
}

// grow creates slots in ascending order. It returns how many there are.
func (a *action) grow(ctx context.Context, present, want int) (int, error) {
	for slot := present + 1; slot <= want; slot++ {
		// One with other arguments exists as well.
		if _, err := a.channel.Create(ctx, a.Exists(slot), 0); err != nil && !errors.Is(err, transport.ErrDiffers) {
			return slot - 1, a.interrupted("create", slot, slot-1, err)
		}
	}
	return want, nil
}

// interrupted says how far the action got. Whether the last step was carried out is not known where no answer came.
func (a *action) interrupted(verb string, slot, left int, err error) error {
	if errors.Is(err, lock.ErrUnreachable) || errors.Is(err, transport.ErrTaken) {
		err = fmt.Errorf("%w: %w", err, lock.ErrUnknown)
	}
	return fmt.Errorf("%s was left with %d slots; slot %d was to be %sd: %w", a.ID, left, slot, verb, err)
}
