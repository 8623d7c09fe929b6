// Package contender contends for a lock: it gets a slot, or waits until it is called to one. How it is called depends
// on the lock: by the batons of its line ([Line]), by the broker, which hands it a token ([Tokens]), or by nobody, so
// that it polls. What comes after the claim of a slot is the holding's.
package contender

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"berth/lock"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/request"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Config says who contends, and how.
type Config struct {
	Names      names.Names              // of no type: whichever the lock has
	Plain      bool                     // the lock has queues A and B, and nothing else
	Lease      time.Duration            // of such a lock; zero: two heartbeats. Tests have shorter ones
	Dialer     func() *transport.Dialer // makes one; its Log is the contender's
	Host       string                   // for the ledger
	PID        int
	Contention lock.Contention
	Admins     *request.Admins   // in place of those of Contention
	Detected   func(names.Names) // is called when the lock is found, with names of the type of its queues
}

// Contender is lock.Lock. New makes it. Where nobody has said the type of the lock's queues, it takes them for classic
// ones until it sees that the lock has quorum queues, and the other way around.
type Contender struct {
	cfg Config

	mu sync.Mutex // guards what follows: Handovers and Requests are read while Acquire runs
	on *Candidate
}

var _ lock.Lock = (*Contender)(nil)

// Candidate contends for a lock whose queues are of one type.
type Candidate struct {
	Holder *holding.Holder // of what it claims
	Caller Caller          // Line, Tokens, or one that polls

	id       lock.ID
	priority int  // among the waiters, once it has won a slot
	once     bool // see lock.Contention
	foreign  sync.Once
	held     *holding.Held      // the last one
	handover chan lock.Handover // what belongs to a place that it waits in; nil: it waits in none
}

// Caller is how a contender gets a slot, and is called to one.
type Caller interface {
	acquire(ctx context.Context) (*holding.Held, error)
	wait(ctx context.Context, pause time.Duration) error
	leave() // gives up what it waits with
}

// New returns a contender that is not connected. It does no I/O.
func New(cfg Config) *Contender {
	c := &Contender{cfg: cfg}
	c.on = c.candidate(cfg.Names, false)
	return c
}

// candidate returns what contends for a lock of these names. With seen their type is that which was seen.
func (c *Contender) candidate(n names.Names, seen bool) *Candidate {
	d, as := c.cfg.Dialer(), c.cfg.Contention
	s := session.New(d)
	priority, limit := as.Priority, 1
	if as.Takeover {
		priority = lock.MaxPriority + 1
	}
	if n.ID.Kind == lock.Semaphore {
		limit = lock.MaxSlots
	}
	h := &holding.Holder{
		Names: n, Plain: c.cfg.Plain, Session: s, Writer: ledger.NewWriter(s.Lender, d.Log), Skipped: &slots.Skipped{},
		Inbox: request.New(c.cfg.Admins, d), Host: c.cfg.Host, PID: c.cfg.PID, Env: holding.NewEnv(), Log: d.Log,
	}
	h.Env.Lease = c.cfg.Lease
	h.Waiter = line.NewWaiter(line.Config{
		ID: n.ID, Queue: n.Line(), Priority: priority, Limit: limit, Once: as.Once || n.HandsOut(), Renewal: line.Renewal,
		Log: d.Log,
	}, s) // with tokens nobody stands in line
	h.Finder = &slots.Finder{Names: n, Session: s, Skipped: h.Skipped, Limit: limit, Once: as.Once, Log: d.Log}
	on := &Candidate{Holder: h, id: n.ID, priority: as.Priority, once: as.Once}
	switch {
	case n.HandsOut():
		on.Caller = newTokens(on, priority, seen, c.cfg.Detected)
	case c.cfg.Plain:
		on.Caller = &poll{Candidate: on}
	default:
		on.handover = make(chan lock.Handover, 1)
		on.Caller = &Line{Candidate: on}
	}
	return on
}

// On returns what contends now.
func (c *Contender) On() *Candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.on
}

// Alarm implements lock.Lock.
func (c *Contender) Alarm() string { return c.On().Holder.Session.Alarm() }

// Connect implements lock.Lock.
func (c *Contender) Connect(ctx context.Context) error {
	if err := c.cfg.Names.ID.Check(); err != nil {
		return err
	}
	h := c.On().Holder
	first := h.Session.Conn() == nil
	err := h.Session.Connect(ctx)
	if first && err == nil && h.Plain {
		h.Log.Info("with the plain protocol less is promised; see berth check --protocol plain")
	}
	return err
}

// Acquire implements lock.Lock.
func (c *Contender) Acquire(ctx context.Context) (lock.Held, error) {
	h, err := c.On().acquire(ctx)
	if c.cfg.Names.Type != "" {
		return h, err
	}
	if !errors.Is(err, names.ErrOtherType) {
		if err == nil || errors.Is(err, lock.ErrFull) {
			c.cfg.Detected(c.On().Holder.Names)
		}
		return h, err
	}
	if err := c.swap(ctx); err != nil {
		return nil, err
	}
	if h, err = c.On().acquire(ctx); errors.Is(err, names.ErrOtherType) { // it was made again meanwhile
		return nil, lock.Errorf(lock.ErrUnknown, "%s", err.Error())
	}
	return h, err
}

// swap contends for the lock with the other type from now on.
func (c *Contender) swap(ctx context.Context) error {
	last, n := c.On(), c.cfg.Names
	if !last.Holder.Names.Replicated() {
		n = n.Of(names.Quorum)
	}
	next := c.candidate(n, true)
	c.mu.Lock()
	c.on = next
	c.mu.Unlock()
	_ = last.close() // which holds nothing
	return c.Connect(ctx)
}

// Wait implements lock.Lock. It ends when it is called to a slot; otherwise pause counts.
func (c *Contender) Wait(ctx context.Context, pause time.Duration) error {
	on := c.On()
	if on.Holder.Session.Conn() == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", on.id)
	}
	return on.Caller.wait(ctx, pause)
}

// Handovers implements lock.Lock.
func (c *Contender) Handovers() <-chan lock.Handover { return c.On().handover }

// Requests implements lock.Lock.
func (c *Contender) Requests() <-chan lock.Request { return c.On().Holder.Inbox.Requests() }

// Close implements lock.Lock. It takes a second at most, and two more if something is just being published.
func (c *Contender) Close() error { return c.On().close() }

// acquire makes an attempt, and another one if the broker has ended the connection because of an error of its own, which
// says nothing of the lock. What the first one had is free by then, on quorum queues a moment later: RabbitMQ ends channels
// and deletes exclusive queues before it tells the client.
func (c *Candidate) acquire(ctx context.Context) (lock.Held, error) {
	s := c.Holder.Session
	if err := s.Begin("acquire "+c.id.String(), c.held != nil && !c.held.Over()); err != nil {
		return nil, err
	}
	h, err := c.attempt(ctx)
	if err != nil && ctx.Err() == nil && s.Conn().JustFailed() {
		c.Holder.Log.Debug("trying once more over another connection", "because", err)
		if err = s.Connect(ctx); err == nil {
			h, err = c.attempt(ctx)
		}
	}
	if err != nil {
		return nil, s.Outcome(err)
	}
	c.held, c.Holder.Waiter.Priority = h, c.priority // it has taken over, if it was to
	return h, nil
}

func (c *Candidate) attempt(ctx context.Context) (*holding.Held, error) {
	c.Holder.Writer.FlushOwed(ctx)
	return c.Caller.acquire(ctx)
}

func (c *Candidate) close() error {
	c.Caller.leave()
	answered := make(chan struct{})
	go func() {
		c.Holder.Inbox.Close()
		close(answered)
	}()
	err := c.Holder.Session.Close() // which gives back what is in hand
	<-answered
	if c.held != nil {
		c.held.Wait()
		c.held = nil
	}
	return err
}

// none reports whether an attempt has found that there is no slot to be had.
func none(err error) bool { return errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent) }

// permitted is the outcome of an attempt that has found none: lock.ErrDenied where the user may not make the queue by
// which it would have a slot, or be called to one. Only a contender that is about to wait asks.
func (c *Candidate) permitted(ctx context.Context, queue string, err error) error {
	if c.once {
		return err
	}
	return cmp.Or(c.Holder.Session.Permitted(ctx, queue, c.Holder.Names.Mark()), err)
}

// seekForeign says once if what keeps the only slot of a lock is nobody's claim but a foreign queue.
func (c *Candidate) seekForeign(ctx context.Context) {
	c.foreign.Do(func() {
		if b := c.Holder.Names.Holds(1); c.Holder.Session.Side().Find(ctx, b) == nil {
			c.Holder.Log.Warn("waiting for a queue that belongs to no berth", "error", c.Holder.Names.Foreign(b))
		}
	})
}
