package campaign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/prover/adapter"
	"berth/prover/history"
	"berth/test/process"
)

// environment is a client's. A process that has the campaign's directory there is the campaign's.
func (c *campaign) environment(client string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		variable, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(v, "WITNESS_") || variable == c.SlotVariable || variable == c.TermVariable
	})
	all := c.Time + c.Progress + grace + healTimeout
	return append(env, "WITNESS_CLIENT="+client, c.mark(), "WITNESS_REGISTER="+c.register(), "WITNESS_MODE="+c.Mode,
		fmt.Sprint("WITNESS_STATUS=", exitStatus),
		"WITNESS_FOR="+works(c.Seed, c.started, c.Work).String(), fmt.Sprintf("WITNESS_UNTIL=%d", c.began+int64(all)),
		"WITNESS_SLOT_VARIABLE="+c.SlotVariable, "WITNESS_TERM_VARIABLE="+c.TermVariable)
}

// mark is in the environment of every process of the campaign.
func (c *campaign) mark() string { return "WITNESS_DIR=" + c.records() }

// works returns how long the command of a client works: now and then longer than a lease and any fault, so that the one
// can end, and the other be healed, while the command lives.
func works(seed uint64, client int, longest time.Duration) time.Duration {
	random := rand.New(rand.NewPCG(seed, uint64(client)))
	if random.IntN(5) == 0 {
		return between(random, longest/2, longest)
	}
	return min(longest, between(random, leastWork, mostWork))
}

// end ends what was broken, all clients, and what they have left. When the campaign is interrupted, it does so sooner.
func (c *campaign) end(ctx context.Context) error {
	err := c.heal()
	patience, kill := context.WithTimeout(context.Background(), grace)
	defer kill()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace/10, kill) })()
	ending := history.Event{Kind: history.Fault, Fault: history.End, At: history.Now()}
	var all sync.WaitGroup
	for _, one := range c.clients {
		all.Go(func() { one.killed = one.End(patience) })
	}
	all.Wait()
	ending.Until = history.Now()
	c.note(ending)
	for _, one := range c.clients {
		if one.killed != 0 {
			c.note(history.Event{Kind: history.Fault, Fault: history.Kill, Target: one.name, At: one.killed, Until: one.killed})
		}
		c.bury(one)
	}
	err = errors.Join(err, c.sweep())
	for _, relay := range c.relays {
		err = errors.Join(err, relay.Close())
	}
	return err
}

// closeRelays closes those of clients that have ended, and of which nothing lives.
func (c *campaign) closeRelays() (err error) {
	needed := slices.Collect(maps.Values(c.living()))
	needed = slices.AppendSeq(needed, maps.Values(c.living())) // once more: one that executes another program is not found
	for _, one := range c.clients {
		needed = append(needed, one.name)
	}
	for name, relay := range c.relays {
		if !slices.Contains(needed, name) {
			err = errors.Join(err, relay.Close())
			delete(c.relays, name)
		}
	}
	return err
}

// sweep notes and kills what lives on.
func (c *campaign) sweep() error {
	left, err := adapter.EndAll(context.Background(), c.mark(), c.Orphan)
	for pid, env := range left {
		c.note(history.Event{Kind: history.Leftover, Client: clientOf(env), PID: pid, At: history.Now()})
	}
	return err
}

// living returns all processes of the campaign, each with its client.
func (c *campaign) living() map[int]string {
	clients := map[int]string{}
	for pid, env := range process.WithEnvironment(c.mark()) {
		clients[pid] = clientOf(env)
	}
	return clients
}

// clientOf returns the client whose environment that is.
func clientOf(env []string) string {
	for _, v := range env {
		if name, found := strings.CutPrefix(v, "WITNESS_CLIENT="); found {
			return name
		}
	}
	return "unknown"
}

// gather adds what witnesses wrote down.
func (c *campaign) gather() error {
	events, err := c.lived.Read()
	for _, e := range events {
		c.note(e)
	}
	return err
}
