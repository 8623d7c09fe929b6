package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/witness"
)

// breach is a fault that lasts.
type breach struct {
	event history.Event
	heal  func(context.Context) error
	pause time.Duration // after it
}

// plan is the fault that is next.
type plan struct {
	fault        fault.Fault
	holder       bool          // it waits for a command that runs, and strikes the client of one
	until        time.Time     // for how long it waits for that
	target       uint64        // which client it strikes, of those that it may
	lasts, pause time.Duration // and how long nothing strikes after it
}

// draw returns the next plan. It takes as many numbers each time, so that a seed has the same faults whatever the clients
// do.
func (c *campaign) draw() *plan {
	p := &plan{target: c.random.Uint64(), holder: c.random.IntN(4) > 0, until: time.Now().Add(settling),
		fault: c.Faults[c.random.IntN(len(c.Faults))],
		lasts: between(c.random, leastPause, briefly), pause: between(c.random, leastPause, mostPause)}
	if long := between(c.random, briefly, longest); c.random.IntN(3) == 0 {
		p.lasts = min(long, c.Time/2)
	}
	return p
}

// breakOrHeal ends the fault that lasts, or has the next one strike: one at a time.
func (c *campaign) breakOrHeal(ctx context.Context) error {
	if c.broken != nil {
		return c.heal(ctx)
	}
	if c.plan == nil {
		c.plan = c.draw()
	}
	p, running := c.plan, c.running()
	clients := slices.DeleteFunc(slices.Clone(c.clients), func(one *client) bool { return one.Ended() })
	holders := slices.DeleteFunc(slices.Clone(clients), func(one *client) bool { return !running[one.name] })
	switch {
	case p.holder && len(holders) > 0:
		clients = holders
	case len(clients) == 0 || p.holder && time.Now().Before(p.until):
		c.next = time.Now().Add(10 * tick)
		return nil
	}
	c.plan, c.next = nil, time.Now().Add(p.pause)
	strikes, event := fault.Target{Broker: c.Broker}, history.Event{Kind: history.Fault, Fault: p.fault.Name}
	if p.fault.Needs != fault.Broker {
		one := clients[p.target%uint64(len(clients))]
		strikes.Client, strikes.Link, event.Target = one, one.relay, one.name
	}
	event.At = history.Now()
	heal, err := p.fault.Strike(strikes)
	event.Until = history.Now()
	switch {
	case errors.Is(err, fault.ErrNothing):
		return nil
	case err != nil:
		c.note(event) // it may have struck
		return fmt.Errorf("fault %s: %w", p.fault.Name, err)
	case !p.fault.Lasts:
		c.note(event)
		return nil
	}
	c.broken = &breach{event, heal, p.pause}
	c.next = time.Now().Add(p.lasts)
	return nil
}

// heal ends the fault that lasts, if there is one. A broker is left as it is once the campaign is interrupted: it is not
// needed any more.
func (c *campaign) heal(ctx context.Context) error {
	if c.broken == nil {
		return nil
	}
	b := c.broken
	c.broken = nil
	var err error
	if ctx.Err() == nil || b.event.Target != "" {
		ctx, cancel := context.WithTimeout(ctx, healTimeout)
		defer cancel()
		err = b.heal(ctx)
	}
	b.event.Until, c.next = history.Now(), time.Now().Add(b.pause)
	c.note(b.event)
	if err != nil {
		return fmt.Errorf("cannot end the fault %s: %w", b.event.Fault, err)
	}
	return nil
}

// running returns the names of clients whose commands run.
func (c *campaign) running() map[string]bool {
	names := map[string]bool{}
	for pid, client := range c.living() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // "": it is gone
		if name, _, _ := strings.Cut(string(line), "\x00"); filepath.Base(name) == witness.Name {
			names[client] = true
		}
	}
	return names
}
