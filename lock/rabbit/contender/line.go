package contender

import (
	"context"
	"errors"
	"sync"
	"time"

	"berth/lock"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// leaveTimeout bounds giving up the successor's place cleanly.
const leaveTimeout = 2 * time.Second

// Line is the Caller of a lock whose waiters stand in line: it finds a slot by probes, or becomes the successor for one
// when a baton has come.
type Line struct {
	*Candidate
	refused sync.Once // that it may not be the successor was told

	successor *holding.Classic // of the slot whose successor this contender is; nil: none
}

func (c *Line) acquire(ctx context.Context) (*holding.Held, error) {
	if c.successor != nil {
		return c.becomeHolder()
	}
	var h *holding.Held
	err := c.Holder.Finder.Search(ctx, func(ctx context.Context, slot int, atOnce bool) (err error) {
		h, err = c.Holder.Claim(ctx, slot, atOnce)
		return err
	})
	if errors.Is(err, lock.ErrAbsent) {
		a := c.Holder.Names.Other().Exists(1)
		if found, looked := c.Holder.Session.ProbeOne(ctx, a); looked == nil && found == transport.Present {
			err = c.Holder.Names.OfOtherType()
		}
	}
	if err != nil {
		if none(err) {
			err = c.permitted(ctx, c.Holder.Names.Holds(1), err)
		}
		c.Holder.Waiter.Missed(c.outcome(err))
		return nil, err
	}
	c.Holder.Waiter.Won(ctx, h.Slot(), false)
	return h, nil
}

// outcome is what a waiter has to know of a failed attempt.
func (c *Line) outcome(err error) line.Outcome {
	switch {
	case c.Holder.Finder.Incomplete() && (none(err) || errors.Is(err, lock.ErrUnknown)):
		return line.Doubtful
	case none(err):
		return line.Full
	}
	return line.Hindered
}

// becomeHolder makes the slot that this contender is the successor for the one that it holds, if its command may start.
func (c *Line) becomeHolder() (*holding.Held, error) {
	if !c.successor.MayStart() {
		return nil, c.id.Full()
	}
	h := c.successor.Held
	c.successor = nil
	return h, nil
}

// tell makes known what belongs to the place that this contender has.
func (c *Line) tell(h lock.Handover) {
	select {
	case <-c.handover:
	default:
	}
	c.handover <- h
}

// wait becomes the successor for a slot, while every slot is held, or there is none, or waits for a baton; otherwise,
// and where the broker refuses batons, pause counts.
func (c *Line) wait(ctx context.Context, pause time.Duration) error {
	if c.Holder.Finder.Limit == 1 && c.Holder.Waiter.Waited() {
		c.seekForeign(ctx)
	}
	for {
		if c.successor == nil && c.Holder.Waiter.Patient() && !c.Holder.Waiter.InLine() {
			c.becomeSuccessor(ctx)
		}
		if c.successor != nil {
			switch err := c.stand(ctx); {
			case errors.Is(err, holding.ErrStepBack):
				c.Holder.Waiter.StepBack()
			case errors.Is(err, holding.ErrElsewhere): // which nobody else was told of
				c.Holder.Waiter.Called()
			default:
				return err
			}
			continue
		}
		called, err := c.Holder.Waiter.Wait(ctx, pause)
		if err != nil || !called {
			return err
		}
	}
}

// becomeSuccessor makes this contender the successor for a slot, if there is one that has none: that of the baton in
// hand, or any.
func (c *Line) becomeSuccessor(ctx context.Context) {
	candidates := c.Holder.Finder.Waitable()
	if hint := c.Holder.Waiter.Hint(); hint > 0 {
		candidates = []int{hint}
		gap, err := c.Holder.Finder.Gap(ctx, hint)
		if err != nil {
			c.Holder.Waiter.Missed(line.Hindered)
		}
		if err != nil || gap > 0 {
			return
		}
	}
	for _, slot := range candidates {
		h, err := c.Holder.Succeed(ctx, slot)
		if err == nil {
			c.successor = h
			c.tell(h.Handover())
			c.Holder.Waiter.Won(ctx, slot, !h.MayStart())
			return
		}
		c.Holder.Log.Debug("not the successor", "slot", slot, "because", err)
		if errors.Is(err, lock.ErrDenied) {
			c.refused.Do(func() { c.Holder.Log.Warn("this user cannot be the next holder", "slot", slot, "error", err) })
		}
		if errors.Is(err, ledger.ErrSuccessor) {
			c.askForPlace(ctx, slot)
		} else if slot == c.Holder.Waiter.Hint() && !slots.LostRace(err) {
			c.Holder.Waiter.Missed(line.Hindered) // others may be able to use the slot
		}
		if !c.Holder.Session.Usable() {
			return
		}
	}
}

// askForPlace asks the successor to step back, if this contender has a priority above the least.
func (c *Line) askForPlace(ctx context.Context, slot int) {
	if c.Holder.Waiter.Priority == 0 {
		return
	}
	c.Holder.Waiter.Join(ctx) // or the place goes to somebody else
	_, err := c.Holder.Session.Lender.Publish(ctx, c.Holder.Names.Ledger(slot), ledger.YieldRequest(c.Holder.Waiter.Priority))
	c.Holder.Log.Debug("asked the successor to step back", "slot", slot, "error", err)
}

// stand waits until the command may start in the slot whose successor this contender is. A place that is lost is none:
// another attempt follows.
func (c *Line) stand(ctx context.Context) error {
	err := c.successor.Stand(ctx)
	if err == nil {
		c.tell(c.successor.Handover()) // it may have been recorded just now
		return nil
	}
	if ctx.Err() != nil {
		return err // Close gives the place back
	}
	c.Holder.Log.Debug("no longer the successor", "slot", c.successor.Slot(), "because", err)
	c.leave()
	if errors.Is(err, holding.ErrStepBack) || errors.Is(err, holding.ErrElsewhere) {
		return err
	}
	if !c.Holder.Session.Usable() {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: %s", c.id, err.Error())
	}
	return nil
}

// leave gives up being the successor. It takes its time whatever becomes of its caller: others would wait for a place
// that is recorded and not released.
func (c *Line) leave() {
	successor := c.successor
	if successor == nil {
		return
	}
	c.successor = nil
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := successor.Release(ctx); err != nil {
		c.Holder.Log.Debug("cannot leave the successor's place cleanly", "slot", successor.Slot(), "error", err)
	}
	c.Holder.Waiter.PassOn() // whatever has become of the slot: with a baton in hand no other would come
	c.tell(lock.Handover{})
}
