package administration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
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
	if a.delay == 0 && act.names.Line() != "" && (after > before || after == before && err == nil) {
		patience := wakeTimeout
		if err != nil {
			patience = sweepTimeout
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if err := act.wake(bounded, after); err != nil {
			a.dialer.Log.Warn("waiters could not be told of free slots; they may take two minutes to see them",
				"error", err)
		}
	}
	return before, after, err
}

// RemoveAscending implements lock.Administrator.
func (a *administrator) RemoveAscending(
	ctx context.Context, sweep int, target func(present int) (int, error),
) (before, after int, err error) {
	act, err := a.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer act.close(ctx)
	return act.exclusively(ctx, target, func(present, want int) (int, error) {
		if want != 0 {
			return present, fmt.Errorf("cannot leave %d slots of %s: all are removed in ascending order, or none", want, a.names.ID)
		}
		return act.forEachType(func() (int, error) { return act.ascend(ctx, present, sweep) })
	})
}

func (a *action) resize(
	ctx context.Context, sweep int, target func(present int) (int, error),
) (before, after int, err error) {
	return a.exclusively(ctx, target, func(present, want int) (int, error) {
		if want == 0 {
			return a.forEachType(func() (int, error) { return a.fit(ctx, present, 0, sweep) })
		}
		return a.fit(ctx, present, want, sweep)
	})
}

// fit makes slots and tokens as many as are wanted, of one type.
func (a *action) fit(ctx context.Context, present, want, sweep int) (after int, err error) {
	after, err = a.shrink(ctx, present, want, sweep)
	if err == nil {
		after, err = a.grow(ctx, after, want)
	}
	if err != nil {
		return after, err
	}
	if present == 0 && after > 0 && a.delay == 0 {
		defer a.turnWaiters(ctx) // once there are tokens
	}
	if !a.names.HandsOut() {
		return after, nil
	}
	if want == 0 && errors.Is(a.channel.Find(ctx, a.names.Tokens()), transport.ErrNoQueue) {
		return after, nil
	}
	pool := token.Pool{Names: a.names, Side: a.channel, Lender: a.publisher.Lender, Probe: a.publisher.Probe,
		Log: a.dialer.Log}
	return after, pool.Repair(ctx, after, min(present, after))
}

// exclusively makes a change under the administration mutex. change returns how many slots there are after it.
func (a *action) exclusively(
	ctx context.Context, target func(present int) (int, error), change func(present, want int) (int, error),
) (before, after int, err error) {
	if err := a.enter(ctx); err != nil {
		return 0, 0, fmt.Errorf("cannot begin the administration of %s: %w", a.names.ID, err)
	}
	defer func() { // where it cannot be given back, the end of the connection does that
		if a.channel.Remove(ctx, a.names.Administration()) != nil {
			a.channel.Conn().Abandon()
		}
	}()
	if err = a.detectType(ctx); err == nil {
		before, err = a.count(ctx)
	}
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
	after, err = change(before, want)
	return before, after, err
}

// wake calls a waiter for every slot that nobody holds: those that were just made, and those that an action made
// which was broken off before it came to this. It makes no more calls than there is room for.
func (a *action) wake(ctx context.Context, count int) error {
	if errors.Is(a.channel.Find(ctx, a.names.Line()), transport.ErrNoQueue) {
		return nil // nobody has ever waited
	}
	made := int32(0)
	for from := 1; from <= count; from += slots.LargestBatch {
		to := min(from+slots.LargestBatch-1, count)
		held, err := a.publisher.Probe(ctx, slots.Queues(a.names.Holds, from, to))
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
			w, err := a.publisher.Publish(ctx, a.names.Line(), line.Call(from+i))
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
	if a.names.ID.Kind == lock.PersistentMutex {
		limit = 1
	}
	if want < 0 || want > limit {
		return fmt.Errorf("cannot give %s %d slots; choose 0 to %d", a.names.ID, want, limit)
	}
	return nil
}

// shrink deletes every slot above want, and sweep slots beyond the larger of both numbers, in descending order: so
// what is left has no gaps whenever it is interrupted. It returns how many slots are left.
//
// One slot beyond is always deleted: a leftover there would become a slot the moment its predecessor is made, and
// every leftover that follows it.
func (a *action) shrink(ctx context.Context, present, want, sweep int) (int, error) {
	top, leftovers := a.leftovers(ctx, max(present, want), sweep)
	for slot := top; slot > want; slot-- {
		if err := a.remove(ctx, a.names, a.names.Exists(slot)); err != nil {
			return min(present, slot), a.interrupted("remove", slot, min(present, slot), err)
		}
	}
	a.tellOfLeftovers(leftovers)
	return min(present, want), nil
}

// ascend deletes every slot, and leftovers as shrink does, in ascending order: who looks for a slot finds none from the
// first deletion on. It returns how many slots are left; what is left behind the first is no slot.
func (a *action) ascend(ctx context.Context, present, sweep int) (int, error) {
	top, leftovers := a.leftovers(ctx, present, sweep)
	left := present
	for slot := 1; slot <= top; slot++ {
		if err := a.remove(ctx, a.names, a.names.Exists(slot)); err != nil {
			return left, fmt.Errorf("those up to %d stay with their holders until they are removed: %w", top,
				a.interrupted("remove", slot, left, err))
		}
		left = 0
	}
	a.tellOfLeftovers(leftovers)
	return 0, nil
}

// leftovers returns up to which slot leftovers beyond the last slot are to be removed, and which there are, as far as
// the broker says so: up to sweep slots beyond the last one that is there, leftovers included.
func (a *action) leftovers(ctx context.Context, last, sweep int) (top int, there []int) {
	bounded, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	sweep = max(sweep, 1)
	top = min(last+sweep, lock.MaxSlots)
	for from := last + 1; from <= top; {
		to := min(top, from+slots.LargestBatch-1)
		found, err := a.publisher.Probe(bounded, slots.Queues(a.names.Exists, from, to))
		if err != nil {
			a.dialer.Log.Debug("not known whether there are leftovers", "error", err)
			break
		}
		for i := range found {
			if found[i] == transport.Present {
				there = append(there, from+i)
				top = min(from+i+sweep, lock.MaxSlots)
			}
		}
		from = to + 1
	}
	return top, there
}

// remove deletes a queue of a lock whose queues have these names.
func (a *action) remove(ctx context.Context, n names.Names, queue string) error {
	if n.Replicated() {
		return a.channel.RemoveReplicated(ctx, queue)
	}
	return a.channel.Remove(ctx, queue)
}

func (a *action) tellOfLeftovers(leftovers []int) {
	if len(leftovers) > 0 {
		a.dialer.Log.Warn("leftovers beyond the last slot were removed; their holders lose them",
			"slots", fmt.Sprint(leftovers))
	}
}

// grow creates slots in ascending order. It returns how many there are.
func (a *action) grow(ctx context.Context, present, want int) (int, error) {
	if present == 0 && want > 0 {
		if err := a.leaveOther(ctx); err != nil {
			return present, err
		}
		if a.administrator.names.Type == "" && !a.names.Replicated() && len(a.dialer.Brokers) > 1 {
			a.dialer.Log.Warn(names.OnSingleNodes)
		}
	}
	for slot := present + 1; slot <= want; slot++ {
		// One with other arguments exists as well.
		if err := a.create(ctx, slot); err != nil && !errors.Is(err, transport.ErrDiffers) {
			return slot - 1, a.interrupted("create", slot, slot-1, err)
		}
	}
	return want, nil
}

// create makes a slot.
func (a *action) create(ctx context.Context, slot int) error {
	if a.names.Replicated() {
		maker := ledger.Maker{Names: a.names, Side: a.channel, Lender: a.publisher.Lender, Log: a.dialer.Log}
		return maker.Make(ctx, slot, func() (bool, error) { return true, nil })
	}
	_, err := a.channel.Create(ctx, a.names.Exists(slot), 0)
	return err
}

// interrupted says how far the action got. Whether the last step was carried out is not known where no answer came.
func (a *action) interrupted(verb string, slot, left int, err error) error {
	if errors.Is(err, lock.ErrUnreachable) || errors.Is(err, transport.ErrTaken) {
		err = fmt.Errorf("%w: %w", err, lock.ErrUnknown)
	}
	return fmt.Errorf("%s was left with %d slots; slot %d was to be %sd: %w", a.names.ID, left, slot, verb, err)
}
