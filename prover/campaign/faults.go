package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/witness"
)

// breach is a fault that strikes, lasts, and is healed again, in a goroutine of its own.
type breach struct {
	fault fault.Fault
	pause time.Duration // after it
	done  chan struct{} // closed when the following are final
	event history.Event // but for Until it is from the beginning
	err   error
}

// run leaves a broker as it is once the campaign is interrupted: it is not needed any more.
func (b *breach) run(ctx, lasting context.Context, at fault.Target, lasts time.Duration) {
	defer close(b.done)
	heal, err := b.fault.Strike(ctx, at)
	b.event.Until = history.Now()
	if err != nil {
		b.err = fmt.Errorf("fault %s: %w", b.fault.Name, err)
		lasts = 0 // it may have struck all the same
	}
	if heal == nil || !b.fault.Lasts {
		return
	}
	select {
	case <-time.After(lasts):
	case <-lasting.Done():
	}
	if ctx.Err() == nil || b.fault.Needs < fault.Broker {
		ctx, cancel := context.WithTimeout(ctx, healTimeout)
		defer cancel()
		if err := heal(ctx); err != nil && b.err == nil {
			b.err = fmt.Errorf("cannot end the fault %s: %w", b.fault.Name, err)
		}
	}
	b.event.Until = history.Now()
}

// hinders reports whether the other one must not begin while it lasts: it is the same, or both stop one client, and the
// first CONT would end both, or both strike the broker.
func (b *breach) hinders(other *breach) bool {
	same := b.event.Target == other.event.Target
	return same && b.fault.Name == other.fault.Name ||
		same && b.fault.Needs == fault.Client && other.fault.Needs == fault.Client && other.fault.Lasts ||
		b.fault.Needs >= fault.Broker && other.fault.Needs >= fault.Broker
}

// Plan is how one fault strikes.
type Plan struct {
	Fault            fault.Fault
	At               time.Duration // since the first command; 0: when it is its turn
	Running, Waiting bool          // it strikes a client whose command runs, or one without, and waits for such a client
	Prefers          string        // the client or node that it strikes if it may
	Lasts            time.Duration

	until  time.Time     // until when it waits for that; zero: it does not yet
	target uint64        // which client it strikes else
	pause  time.Duration // how long nothing strikes after it
}

// draw returns the next plan, by the script if there is one; nil: none is left. It takes as many numbers each time, so that
// a seed has the same faults whatever the clients do.
func (c *campaign) draw() (p *Plan) {
	if c.Script != nil {
		if len(c.Script) > 0 {
			p, c.Script = &c.Script[0], c.Script[1:]
		}
		return p
	}
	p = &Plan{target: c.random.Uint64(), Running: c.random.IntN(4) > 0,
		Fault: c.Faults[c.random.IntN(len(c.Faults))],
		Lasts: between(c.random, leastPause, briefly), pause: between(c.random, leastPause, mostPause)}
	if long := between(c.random, briefly, longest); c.random.IntN(3) == 0 {
		p.Lasts = min(long, c.Time/2)
	}
	return p
}

// strike notes the faults that are over, and has the next one strike if it is time.
func (c *campaign) strike(ctx context.Context) error {
	if err := c.settle(); err != nil || len(c.broken) >= max(1, c.AtOnce) || time.Now().Before(c.next) {
		return err
	}
	if c.plan == nil {
		c.plan = c.draw()
	}
	p := c.plan
	if p == nil || time.Since(c.first) < p.At {
		return nil
	}
	running := c.running()
	p.until = cmp.Or(p.until, time.Now().Add(settling))
	clients := slices.DeleteFunc(slices.Clone(c.clients), func(one *client) bool { return one.Ended() })
	wanted := slices.DeleteFunc(slices.Clone(clients), func(one *client) bool {
		return p.Running && !running[one.name] || p.Waiting && running[one.name]
	})
	switch {
	case len(wanted) > 0:
		clients = wanted
	case len(clients) == 0 || time.Now().Before(p.until):
		c.next = time.Now().Add(10 * tick)
		return nil
	}
	at, target := c.aim(p, clients)
	b := &breach{fault: p.Fault, pause: p.pause, done: make(chan struct{}), event: history.Event{
		Kind: history.Fault, Fault: p.Fault.Name, Target: target, Allows: c.Allows[p.Fault.Name], At: history.Now()}}
	if p.Fault.Lasts {
		b.event.Lasts = int64(p.Lasts)
	}
	hindered := slices.ContainsFunc(c.broken, func(other *breach) bool { return other.hinders(b) })
	if hindered && c.Script != nil { // of which every fault is to strike
		c.next = time.Now().Add(10 * tick)
		return nil
	}
	if c.plan, c.next = nil, time.Now().Add(p.pause); hindered {
		return nil
	}
	c.broken = append(c.broken, b)
	go b.run(ctx, c.lasting, at, p.Lasts)
	return nil
}

// aim returns what a plan strikes, one of these clients or nodes, and its name; "": all, or the only node.
func (c *campaign) aim(p *Plan, clients []*client) (at fault.Target, name string) {
	switch p.Fault.Needs {
	case fault.Nothing:
	case fault.Client, fault.Link:
		one := clients[p.target%uint64(len(clients))]
		if i := slices.IndexFunc(clients, func(one *client) bool { return one.name == p.Prefers }); i >= 0 {
			one = clients[i]
		}
		at.Client, at.Link, name = one, one.relay, one.name
		at.Tree = func() (pids []int) {
			for pid, client := range c.living() {
				if client == one.name {
					pids = append(pids, pid)
				}
			}
			return pids
		}
		at.Command = func() (command int) { // the oldest, which has forked the others
			for _, pid := range at.Tree() {
				if witness.Is(pid) && (command == 0 || pid < command) {
					command = pid
				}
			}
			return command
		}
	default:
		node := int(p.target % uint64(len(c.Cluster.Nodes)))
		for i := range c.Cluster.Nodes {
			if nodeName(i) == p.Prefers {
				node = i
			}
		}
		at.Cluster, at.Broker = c.Cluster, c.Cluster.Nodes[node]
		if len(c.Cluster.Nodes) > 1 {
			name = nodeName(node)
		}
	}
	return at, name
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// heal ends all faults that last.
func (c *campaign) heal() error {
	c.calm()
	for _, b := range c.broken {
		<-b.done
	}
	return c.settle()
}

// settle notes the faults that are over. A command that has failed is no error of the campaign's.
func (c *campaign) settle() (err error) {
	c.broken = slices.DeleteFunc(c.broken, func(b *breach) bool {
		select {
		case <-b.done:
		default:
			return false
		}
		c.next = time.Now().Add(b.pause)
		switch {
		case errors.Is(b.err, fault.ErrNothing):
			return true
		case errors.Is(b.err, fault.ErrFailed):
			b.event.Failed = errors.Unwrap(b.err).Error()
		default:
			err = errors.Join(err, b.err)
		}
		c.note(b.event)
		return true
	})
	return err
}

// running returns the names of clients whose commands run.
func (c *campaign) running() map[string]bool {
	names := map[string]bool{}
	for pid, client := range c.living() {
		if witness.Is(pid) {
			names[client] = true
		}
	}
	return names
}
