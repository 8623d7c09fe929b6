// Package plain contends for a lock that is made of queues A and B and nothing else, with what every AMQP 0-9-1 broker
// and every implementation of the A/B scheme has: declaring queues, deleting them, and publishing to see whether they
// are there. It consumes nothing. So nobody says when a command is dead: a berth that has won a slot always waits for
// the handover delay, and one that waits for a slot polls. docs/protocol.md has it under "Plain".
//
// What it does not guarantee: nobody knows another holder's lease. One whose lease is longer than its successor's may
// still run when that one starts.
package plain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Config says who contends, and how.
type Config struct {
	Names  names.Names
	Dialer *transport.Dialer
	Once   bool          // no attempt follows the first
	Lease  time.Duration // and with it the handover delay. Zero: two heartbeats. Tests have shorter ones
	Log    hclog.Logger
}

// Contender is lock.Lock. New makes it.
type Contender struct {
	cfg     Config
	session *session.Session
	finder  *slots.Finder
	limit   int // the highest slot that the lock can have

	looked bool   // for a ledger, because no slot was free
	waited bool   // an attempt has failed
	term   uint64 // the last one
	held   *Held  // the last one
}

var _ lock.Lock = (*Contender)(nil)

// New returns a contender that is not connected. It does no I/O.
func New(cfg Config) *Contender {
	s := session.New(cfg.Dialer)
	limit := 1
	if cfg.Names.ID.Kind == lock.Semaphore {
		limit = lock.MaxSlots
	}
	return &Contender{cfg: cfg, session: s, limit: limit, finder: &slots.Finder{
		Names: cfg.Names, Session: s, Skipped: &slots.Skipped{}, Limit: limit, Once: cfg.Once, Log: cfg.Log,
	}}
}

// Alarm implements lock.Lock.
func (c *Contender) Alarm() string { return c.session.Alarm() }

// Connect implements lock.Lock.
func (c *Contender) Connect(ctx context.Context) error {
	if err := c.cfg.Names.ID.Check(); err != nil {
		return err
	}
	first := c.session.Conn() == nil
	err := c.session.Connect(ctx)
	if first && err == nil {
		c.cfg.Log.Info("with the plain protocol less is promised; see berth check --protocol plain")
	}
	return err
}

// Acquire implements lock.Lock.
func (c *Contender) Acquire(ctx context.Context) (lock.Held, error) {
	id := c.cfg.Names.ID
	if err := c.session.Begin("acquire "+id.String(), c.held != nil && !transport.IsClosed(c.held.over)); err != nil {
		return nil, err
	}
	var h *Held
	err := c.finder.Search(ctx, func(ctx context.Context, slot int, _ bool) (err error) {
		h, err = c.claim(ctx, slot)
		return err
	})
	if errors.Is(err, lock.ErrFull) && !c.looked {
		err = c.seekLedger(ctx, err)
	}
	if errors.Is(err, lock.ErrFull) && !c.cfg.Once {
		err = cmp.Or(c.session.Permitted(ctx, c.cfg.Names.Holds(1), c.cfg.Names.Mark()), err)
	}
	if err == nil {
		c.held = h
		return h, nil
	}
	return nil, c.session.Outcome(err)
}

// seekLedger says so if those who hold the lock keep a ledger. Otherwise it returns full.
func (c *Contender) seekLedger(ctx context.Context, full error) error {
	err := c.withoutLedger(ctx, 1)
	if err == nil || errors.Is(err, lock.ErrUnknown) {
		c.looked = err == nil
		return full
	}
	return err
}

// withoutLedger returns names.Mixed if the slot has a ledger, of either type. lock.ErrDenied: who may not look cannot know.
func (c *Contender) withoutLedger(ctx context.Context, slot int) error {
	for _, of := range []names.Names{c.cfg.Names, c.cfg.Names.Other()} {
		found, err := c.session.Side().Look(ctx, of.Ledger(slot))
		if found == transport.Present {
			return of.Mixed(slot)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// claim makes one attempt at a slot. Errors: as slots.Claim says, lock.ErrUnsafe if the slot has a ledger.
func (c *Contender) claim(ctx context.Context, slot int) (*Held, error) {
	h := newHeld(c, slot)
	if h.a == "" { // nobody has looked yet, and a refused claim costs a channel
		if found, err := c.session.ProbeOne(ctx, h.b); err == nil && found == transport.Present {
			return nil, fmt.Errorf("%s: %w", h, transport.ErrTaken)
		}
	}
	err := h.Claim.Take(ctx)
	if err == nil {
		err = h.exists(ctx)
	}
	if err == nil {
		err = c.withoutLedger(ctx, slot)
	}
	if err == nil {
		h.won = time.Now()
		return h, nil
	}
	_ = h.Release(ctx)
	switch what := "cannot take " + h.String(); {
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return nil, fmt.Errorf("%s: %w", what, ctx.Err())
	case ctx.Err() == nil && h.Claim.Conn().Broken():
		return nil, h.Claim.Conn().BrokenError(what)
	}
	return nil, err
}

// Wait implements lock.Lock. Nobody tells of a slot that is free.
func (c *Contender) Wait(ctx context.Context, pause time.Duration) error {
	conn := c.session.Conn()
	if conn == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", c.cfg.Names.ID)
	}
	if c.limit == 1 && !c.waited {
		c.seekForeign(ctx)
	}
	c.waited = true
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-conn.Done():
	case <-conn.Blocked():
	case <-ctx.Done():
	}
	return conn.WaitError(ctx, c.cfg.Names.ID.String())
}

// seekForeign says if what keeps the only slot of a lock is nobody's claim but a foreign queue.
func (c *Contender) seekForeign(ctx context.Context) {
	if b := c.cfg.Names.Holds(1); c.session.Side().Find(ctx, b) == nil {
		c.cfg.Log.Warn("waiting for a queue that belongs to no berth", "error", c.cfg.Names.Foreign(b))
	}
}

// Handovers implements lock.Lock: there is no successor.
func (c *Contender) Handovers() <-chan lock.Handover { return nil }

// Requests implements lock.Lock: nothing is consumed.
func (c *Contender) Requests() <-chan lock.Request { return nil }

// Close implements lock.Lock. It takes a second at most, and more if something is just being published.
func (c *Contender) Close() error {
	err := c.session.Close()
	if c.held != nil {
		c.held.Claim.Wait()
		c.held = nil
	}
	return err
}
