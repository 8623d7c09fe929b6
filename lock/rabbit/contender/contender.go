// Package contender contends for a lock that is made of queues A and B: it finds a
// slot, claims it, and waits in line where there is none. What comes after the claim
// is the holding's.
package contender

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Config says who contends, and how.
type Config struct {
	Names  names.Names
	Dialer *transport.Dialer
	Once   bool   // no attempt follows the first
	Host   string // for the ledger
	PID    int
	Log    hclog.Logger

	Priority int // among the waiters, 0 to lock.MaxPriority
}

// Contender is lock.Lock. New makes it.
type Contender struct {
	Holder *holding.Holder // of what this contender claims
	Waiter *line.Waiter    // its place in the line

	id      lock.ID
	session *session.Session
	finder  *slots.Finder
	writer  *ledger.Writer
	log     hclog.Logger

	soughtForeign bool // whether something foreign is in the place of B was found out

	mu   sync.Mutex    // Release comes from elsewhere
	held *holding.Held // the last one; guarded by mu
}

var _ lock.Lock = (*Contender)(nil)

// New returns a contender that is not connected. It does no I/O.
func New(cfg Config) *Contender {
	s := session.New(cfg.Dialer)
	limit := 1
	if cfg.Names.ID.Kind == lock.Semaphore {
		limit = lock.MaxSlots
	}
	c := &Contender{id: cfg.Names.ID, session: s, log: cfg.Log}
	c.Waiter = line.NewWaiter(line.Config{
		ID: c.id, Queue: cfg.Names.Line(), Priority: cfg.Priority, Limit: limit,
		Renewal: line.Renewal, Courtesy: line.Courtesy, Log: cfg.Log,
	}, s)
	c.writer = ledger.NewWriter(s.Publisher, cfg.Dialer)
	c.Holder = &holding.Holder{
		Names: cfg.Names, Session: s, Writer: c.writer, Waiter: c.Waiter, Avoided: &slots.Avoided{},
		Host: cfg.Host, PID: cfg.PID, Env: holding.NewEnv(), Log: cfg.Log,
	}
	c.finder = &slots.Finder{
		Names: cfg.Names, Session: s, Avoided: c.Holder.Avoided, Limit: limit, Once: cfg.Once, Log: cfg.Log,
	}
	return c
}

// Connect implements lock.Lock.
func (c *Contender) Connect(ctx context.Context) error {
	if err := c.id.Check(); err != nil {
		return err
	}
	return c.session.Connect(ctx)
}

// Acquire implements lock.Lock.
func (c *Contender) Acquire(ctx context.Context) (lock.Held, error) {
	switch conn := c.session.Conn(); {
	case c.holds():
		return nil, fmt.Errorf("cannot acquire %s: this contender holds a slot of it already; release it first", c.id)
	case conn == nil:
		return nil, lock.Errorf(lock.ErrUnreachable, "cannot acquire %s: not connected", c.id)
	case conn.Broken():
		return nil, conn.BrokenError("cannot acquire " + c.id.String())
	}
	if err := c.Waiter.LetOthers(ctx); err != nil {
		return nil, fmt.Errorf("cannot acquire %s: %w", c.id, err)
	}
	c.writer.Settle(ctx)
	var h *holding.Held
	claim := func(ctx context.Context, slot int, atOnce bool) (err error) {
		h, err = c.Holder.Claim(ctx, slot, atOnce)
		return err
	}
	var err error
	if c.id.Kind == lock.Mutex {
		err = c.claimMutex(ctx, claim)
	} else {
		err = c.finder.Search(ctx, c.Waiter.Hint(), claim)
	}
	if err != nil {
		c.Waiter.Missed(c.outcome(err))
		return nil, err
	}
	c.Waiter.Won(h.Slot())
	c.mu.Lock()
	c.held = h
	c.mu.Unlock()
	return h, nil
}

// outcome is what a waiter has to know of a failed attempt.
func (c *Contender) outcome(err error) line.Outcome {
	incomplete := c.finder.Incomplete()
	switch {
	case errors.Is(err, lock.ErrFull), errors.Is(err, lock.ErrAbsent), errors.Is(err, lock.ErrUnknown) && incomplete:
		if incomplete {
			return line.Doubtful
		}
		return line.Full
	}
	return line.Hindered
}

// claimMutex claims the only slot, which needs no search. A waiter that looks by itself
// probes first: the broker logs each claim that it turns down as an error, and no
// probe.
func (c *Contender) claimMutex(ctx context.Context, claim slots.Claim) error {
	if c.Waiter.Waited() {
		found, err := c.session.Publisher.Probe(ctx, []string{c.Holder.Names.Holds(1)})
		if err == nil && found[0] == transport.Present {
			return c.id.Full()
		}
	}
	err := claim(ctx, 1, false)
	if err != nil && slots.LostRace(err) {
		return c.finder.Full(ctx)
	}
	return err
}

// Wait implements lock.Lock. While every slot is held, or there is none, it waits for
// a baton; otherwise, and where the broker refuses batons, pause counts.
func (c *Contender) Wait(ctx context.Context, pause time.Duration) error {
	if c.session.Conn() == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", c.id)
	}
	if c.finder.Limit == 1 && c.Waiter.Waited() {
		c.seekForeign(ctx)
	}
	return c.Waiter.Wait(ctx, pause)
}

// seekForeign says once if what keeps the only slot of a lock is nobody's claim but a
// foreign queue. Only a waiter that has looked in vain asks: a short wait is not to cost more.
func (c *Contender) seekForeign(ctx context.Context) {
	if c.soughtForeign {
		return
	}
	c.soughtForeign = true
	if b := c.Holder.Names.Holds(1); c.session.Claims().Find(ctx, b) == nil {
		c.log.Warn("waiting for a queue that nobody has claimed", "error", c.Holder.Names.Foreign(b))
	}
}

// Close implements lock.Lock. It takes a second at most, and two more if something is
// just being published.
func (c *Contender) Close() error {
	confirmed := c.session.Close()
	c.mu.Lock()
	held := c.held
	c.held = nil
	c.mu.Unlock()
	if held != nil {
		held.Settle()
	}
	if !confirmed {
		return fmt.Errorf("cannot close %s in order: the broker did not answer within %s; the connection was cut",
			c.id, transport.CloseTimeout)
	}
	return nil
}

// holds reports whether the last slot was not given back yet.
func (c *Contender) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held != nil && !c.held.Over()
}
