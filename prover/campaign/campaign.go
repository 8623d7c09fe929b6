// Package campaign has clients contend for a lock, breaks things meanwhile, and returns the history.
//
// All that it has started is dead when [Run] returns, whatever ended it. What is left when the prover itself is killed ends
// by itself, some time after the campaign should have.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/prover/adapter"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/witness"
	"berth/test/brokertest"
)

const (
	tick  = 10 * time.Millisecond // how often is looked at what has to be done
	grace = 20 * time.Second      // how long a client has to end on TERM

	// How long a command works.
	leastWork, mostWork = 100 * time.Millisecond, 3 * time.Second

	// Between two faults.
	leastPause, mostPause = 100 * time.Millisecond, 2 * time.Second

	// What lasts does so for up to briefly, or, every second time, longest: longer than a lease, as a rule.
	briefly, longest = 2 * time.Second, 15 * time.Second

	healTimeout = 2 * time.Minute // in which a broker is started again
)

// ErrNothingRan is returned when no command ran at all.
var ErrNothingRan = errors.New("no command has run")

// Config is what is tried.
type Config struct {
	Adapter adapter.Template
	Values  adapter.Values // of its placeholders, but for the witness, and for a broker with relays
	Slots   int
	Clients int

	Server *url.URL           // the broker that relays are before; nil: there are none
	Broker *brokertest.Broker // the prover's own; nil: there is none

	Faults   []fault.Fault
	Time     time.Duration // for how long faults strike
	Progress time.Duration // for how long a command is waited for after the last one
	Seed     uint64

	Mode, SlotVariable, TermVariable string // as package witness has them
}

// campaign is a run under way. One goroutine owns it.
type campaign struct {
	Config
	dir     string // with records and logs
	began   int64
	random  *rand.Rand // of the faults
	clients []*client  // that have not been found to have ended
	started int
	failed  int // how many ended before any command ran, with a status that is not 0
	history history.History

	next   time.Time // when a fault strikes, or the one that lasts is healed
	broken *breach   // nil: nothing is
}

// client is one that contends.
type client struct {
	*adapter.Client
	name  string
	relay *fault.Relay // nil: there is none
}

// Run has clients contend for cfg.Time, and returns what happened, also with an error.
func Run(ctx context.Context, cfg Config) (history.History, error) {
	dir, err := os.MkdirTemp("", "berth-prove-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for records: %w", err)
	}
	defer os.RemoveAll(dir)
	c := &campaign{Config: cfg, dir: dir, began: history.Now(), random: rand.New(rand.NewPCG(cfg.Seed, 0))}
	self, err := os.Executable()
	err = errors.Join(err, os.Mkdir(c.records(), 0o700), os.Symlink(self, c.witness())) // a link: one word for any adapter
	if err != nil {
		return nil, fmt.Errorf("cannot prepare records and the witness: %w", err)
	}
	err = c.contend(ctx)
	err = errors.Join(err, c.end(ctx), c.gather())
	if err == nil && witness.Began(c.records(), 0) == 0 {
		err = fmt.Errorf("%w; the first client has printed: %s", ErrNothingRan, c.output("c1"))
	}
	return c.history, err
}

func (c *campaign) records() string { return filepath.Join(c.dir, "records") }

func (c *campaign) witness() string { return filepath.Join(c.dir, witness.Name) }

// contend has clients contend and faults strike, until the time is over and all is calm again.
func (c *campaign) contend(ctx context.Context) error {
	c.note(history.Event{Kind: history.Lock, Lock: c.Values[adapter.Lock], Slots: c.Slots})
	c.next = time.Now().Add(c.between(leastPause, mostPause))
	over := time.Now().Add(c.Time)
	err := c.keep(ctx, func() (bool, error) {
		if time.Now().Before(c.next) {
			return time.Now().After(over), nil
		}
		return false, c.breakOrHeal(ctx)
	})
	if err = errors.Join(err, c.heal(ctx)); err != nil {
		return err
	}
	// As many commands as there are slots begin, or there was more time than that may take.
	calm, late := history.Now(), time.Now().Add(c.Progress+time.Second)
	return c.keep(ctx, func() (bool, error) {
		return witness.Began(c.records(), calm) >= c.Slots || time.Now().After(late), nil
	})
}

// keep keeps the number of clients, and calls do again and again, until that reports the end.
func (c *campaign) keep(ctx context.Context, do func() (end bool, err error)) error {
	for {
		if err := c.replace(); err != nil {
			return err
		}
		if end, err := do(); end || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(tick):
		}
	}
}

// replace notes which clients have ended, and starts others in their place.
func (c *campaign) replace() error {
	var last *client
	c.clients = slices.DeleteFunc(c.clients, func(one *client) bool {
		ended := one.Ended()
		if ended && c.bury(one) != 0 {
			last = one
			c.failed++
		}
		return ended
	})
	if last != nil && c.failed > 2*c.Clients && witness.Began(c.records(), 0) == 0 {
		return fmt.Errorf("%w, and %d clients have failed; the last one has printed: %s", ErrNothingRan, c.failed,
			c.output(last.name))
	}
	for len(c.clients) < c.Clients {
		if err := c.start(); err != nil {
			return err
		}
	}
	return nil
}

// output is the end of what a client has printed.
func (c *campaign) output(client string) string {
	const most = 1000
	text, _ := os.ReadFile(filepath.Join(c.dir, client))
	return string(text[max(0, len(text)-most):])
}

// bury notes how a client has ended.
func (c *campaign) bury(one *client) (status int) {
	until, status := one.Until()
	if one.relay != nil {
		_ = one.relay.Close()
	}
	c.note(history.Event{Kind: history.Client, Client: one.name, At: one.At, Until: until, Status: status})
	return status
}

// start starts one more client.
func (c *campaign) start() (err error) {
	c.started++
	one := &client{name: fmt.Sprintf("c%d", c.started)}
	log, err := os.Create(filepath.Join(c.dir, one.name))
	if err != nil {
		return fmt.Errorf("cannot start a client: %w", err)
	}
	defer log.Close()
	values := adapter.Values{adapter.Witness: c.witness()}
	for name, value := range c.Values {
		values[name] = value
	}
	if c.Server != nil {
		if one.relay, err = fault.NewRelay(c.Server.Host); err != nil {
			return err
		}
		values[adapter.Broker] = one.relay.URL(c.Server)
	}
	if one.Client, err = c.Adapter.With(values).Start(c.environment(one.name), log); err != nil {
		if one.relay != nil {
			_ = one.relay.Close()
		}
		return err
	}
	c.clients = append(c.clients, one)
	return nil
}

// note adds an event, with times since the campaign began.
func (c *campaign) note(e history.Event) {
	e.At = max(0, e.At-c.began)
	if e.Until != 0 {
		e.Until = max(e.At, e.Until-c.began)
	}
	c.history = append(c.history, e)
}

// between returns a random time.
func (c *campaign) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.random.Int64N(int64(most-least)))
}
