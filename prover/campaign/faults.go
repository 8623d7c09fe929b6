package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"berth/prover/fault"
	"berth/prover/history"
	"berth/test/process"
)

// breach is a fault that lasts.
type breach struct {
	event history.Event
	heal  func(context.Context) error
}

// breakOrHeal ends the fault that lasts, or has the next one strike: one at a time.
func (c *campaign) breakOrHeal(ctx context.Context) error {
	if c.broken != nil {
		c.next = time.Now().Add(c.between(leastPause, mostPause))
		return c.heal(ctx)
	}
	// As many numbers each time, so that a seed has the same faults whatever the clients do.
	pause, lasts, long := c.between(leastPause, mostPause), c.between(leastPause, briefly), c.between(briefly, longest)
	if c.random.IntN(2) == 0 {
		lasts = min(long, c.Time/2)
	}
	which, who, holder := c.random.Uint64(), c.random.Uint64(), c.random.IntN(2) == 0
	c.next = time.Now().Add(pause)
	if len(c.Faults) == 0 {
		return nil
	}
	f := c.Faults[which%uint64(len(c.Faults))]
	target, event := fault.Target{Broker: c.Broker}, history.Event{Kind: history.Fault, Fault: f.Name}
	if f.Needs != fault.Broker {
		one := c.choose(who, holder)
		target.Client, target.Link, event.Target = one, one.relay, one.name
	}
	event.At = history.Now()
	heal, err := f.Strike(target)
	event.Until = history.Now()
	switch {
	case errors.Is(err, fault.ErrNothing):
		return nil
	case err != nil:
		return fmt.Errorf("fault %s: %w", f.Name, err)
	case !f.Lasts:
		c.note(event)
		return nil
	}
	c.broken = &breach{event, heal}
	c.next = time.Now().Add(lasts)
	return nil
}

// heal ends the fault that lasts, if there is one.
func (c *campaign) heal(ctx context.Context) error {
	if c.broken == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healTimeout)
	defer cancel()
	b := c.broken
	c.broken = nil
	err := b.heal(ctx)
	b.event.Until = history.Now()
	c.note(b.event)
	if err != nil {
		return fmt.Errorf("cannot end the fault %s: %w", b.event.Fault, err)
	}
	return nil
}

// choose returns a client: with holder one whose command runs, if there is any that is below it.
func (c *campaign) choose(who uint64, holder bool) *client {
	among := c.clients
	if holder {
		var running []*client
		for _, one := range c.clients {
			if runsWitness(one.PID()) {
				running = append(running, one)
			}
		}
		if len(running) > 0 {
			among = running
		}
	}
	return among[who%uint64(len(among))]
}

// runsWitness reports whether a process, or one below it, runs this program.
func runsWitness(pid int) bool {
	self := process.Executable(os.Getpid())
	for _, one := range append(process.Descendants(pid), pid) {
		if process.Executable(one) == self {
			return true
		}
	}
	return false
}
