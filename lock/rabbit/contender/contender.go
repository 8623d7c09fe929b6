// Package contender contends for a lock that is made of queues A and B: it finds a slot, claims it, and waits in line
// where there is none. What comes after the claim is the holding's.
package contender

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

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
	Names  names.Names
	Dialer *transport.Dialer
	Host   string // for the ledger
	PID    int
	Log    hclog.Logger

	Contention lock.Contention
	Admins     *request.Admins // in place of those of Contention
}

// leaveTimeout bounds giving up the successor's place cleanly.
const leaveTimeout = 2 * time.Second

// Contender is lock.Lock. New makes it.
type Contender struct {
	Holder *holding.Holder // of what this contender claims
	Waiter *line.Waiter    // its place in the line

	id       lock.ID
	priority int // once it has won a slot
	session  *session.Session
	finder   *slots.Finder
	writer   *ledger.Writer
	log      hclog.Logger

	once    bool      // see lock.Contention
	foreign sync.Once // whether something foreign is in the place of B
	refused sync.Once // that it may not be the successor was told

	successor *holding.Held      // of the slot whose successor this contender is; nil: none
	handover  chan lock.Handover // what belongs to successor

	held *holding.Held // the last one
}

var _ lock.Lock = (*Contender)(nil)

// New returns a contender that is not connected. It does no I/O.
func New(cfg Config) *Contender {
	s := session.New(cfg.Dialer)
	handover := make(chan lock.Handover, 1)
	limit := 1
	if cfg.Names.ID.Kind == lock.Semaphore {
		limit = lock.MaxSlots
	}
	as := cfg.Contention
	priority := as.Priority
	if as.Takeover {
		priority = lock.MaxPriority + 1
	}
	c := &Contender{id: cfg.Names.ID, priority: as.Priority, session: s, log: cfg.Log, handover: handover, once: as.Once}
	c.Waiter = line.NewWaiter(line.Config{
		ID: c.id, Queue: cfg.Names.Line(), Priority: priority, Limit: limit, Once: as.Once,
		Renewal: line.Renewal, Log: cfg.Log,
	}, s)
	c.writer = ledger.NewWriter(s.Lender, cfg.Log)
	c.Holder = &holding.Holder{
		Names: cfg.Names, Session: s, Writer: c.writer, Waiter: c.Waiter, Skipped: &slots.Skipped{},
		Inbox: request.New(cfg.Admins, cfg.Dialer),
		Host:  cfg.Host, PID: cfg.PID, Env: holding.NewEnv(), Log: cfg.Log,
	}
	c.finder = &slots.Finder{
		Names: cfg.Names, Session: s, Skipped: c.Holder.Skipped, Limit: limit, Once: as.Once, Log: cfg.Log,
	}
	c.Holder.Finder = c.finder
	return c
}

// Alarm implements lock.Lock.
func (c *Contender) Alarm() string { return c.session.Alarm() }

// Connect implements lock.Lock.
func (c *Contender) Connect(ctx context.Context) error {
	if err := c.id.Check(); err != nil {
		return err
	}
	return c.session.Connect(ctx)
}

// Acquire implements lock.Lock.
func (c *Contender) Acquire(ctx context.Context) (lock.Held, error) {
	if err := c.session.Begin("acquire "+c.id.String(), c.held != nil && !c.held.Over()); err != nil {
		return nil, err
	}
	c.writer.FlushOwed(ctx)
	if c.successor != nil {
		return c.becomeHolder()
	}
	var h *holding.Held
	err := c.finder.Search(ctx, func(ctx context.Context, slot int, atOnce bool) (err error) {
		h, err = c.Holder.Claim(ctx, slot, atOnce)
		return err
	})
	if errors.Is(err, lock.ErrAbsent) {
		a := c.Holder.Names.Other().Exists(1)
		if found, looked := c.session.ProbeOne(ctx, a); looked == nil && found == transport.Present {
			err = c.Holder.Names.OfOtherType()
		}
	}
	if err != nil {
		if none(err) && !c.once {
			err = cmp.Or(c.session.Permitted(ctx, c.Holder.Names.Holds(1), c.Holder.Names.Mark()), err)
		}
		c.Waiter.Missed(c.outcome(err))
		return nil, c.session.Outcome(err)
	}
	c.Waiter.Won(ctx, h.Slot(), false)
	return c.won(h), nil
}

// outcome is what a waiter has to know of a failed attempt.
func (c *Contender) outcome(err error) line.Outcome {
	switch {
	case c.finder.Incomplete() && (none(err) || errors.Is(err, lock.ErrUnknown)):
		return line.Doubtful
	case none(err):
		return line.Full
	}
	return line.Hindered
}

// none reports whether an attempt has found that there is no slot to be had.
func none(err error) bool { return errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent) }

// becomeHolder makes the slot that this contender is the successor for the one that it holds, if its command may start.
func (c *Contender) becomeHolder() (lock.Held, error) {
	if !c.successor.MayStart() {
		return nil, c.id.Full()
	}
	h := c.successor
	c.successor = nil
	return c.won(h), nil
}

// won notes the slot that this contender holds now. It has taken over, if it was to.
func (c *Contender) won(h *holding.Held) *holding.Held {
	c.held, c.Waiter.Priority = h, c.priority
	return h
}

// Handovers implements lock.Lock.
func (c *Contender) Handovers() <-chan lock.Handover { return c.handover }

// Requests implements lock.Lock.
func (c *Contender) Requests() <-chan lock.Request { return c.Holder.Inbox.Requests() }

// tell makes known what belongs to the place that this contender has.
func (c *Contender) tell(h lock.Handover) {
	select {
	case <-c.handover:
	default:
	}
	c.handover <- h
}

// Wait implements lock.Lock. While every slot is held, or there is none, it becomes the successor for a slot,
// or waits for a baton; otherwise, and where the broker refuses batons, pause counts.
func (c *Contender) Wait(ctx context.Context, pause time.Duration) error {
	if c.session.Conn() == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", c.id)
	}
	if c.finder.Limit == 1 && c.Waiter.Waited() {
		c.foreign.Do(func() { c.seekForeign(ctx) })
	}
	for {
		if c.successor == nil && c.Waiter.Patient() && !c.Waiter.InLine() {
			c.becomeSuccessor(ctx)
		}
		if c.successor != nil {
			switch err := c.stand(ctx); {
			case errors.Is(err, holding.ErrStepBack):
				c.Waiter.StepBack()
			case errors.Is(err, holding.ErrElsewhere): // which nobody else was told of
				c.Waiter.Called()
			default:
				return err
			}
			continue
		}
		called, err := c.Waiter.Wait(ctx, pause)
		if err != nil || !called {
			return err
		}
	}
}

// becomeSuccessor makes this contender the successor for a slot, if there is one that has none: that of the baton in
// hand, or any.
func (c *Contender) becomeSuccessor(ctx context.Context) {
	candidates := c.finder.Waitable()
	if hint := c.Waiter.Hint(); hint > 0 {
		candidates = []int{hint}
		gap, err := c.finder.Gap(ctx, hint)
		if err != nil {
			c.Waiter.Missed(line.Hindered)
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
			c.Waiter.Won(ctx, slot, !h.MayStart())
			return
		}
		c.log.Debug("not the successor", "slot", slot, "because", err)
		if errors.Is(err, lock.ErrDenied) {
			c.refused.Do(func() { c.log.Warn("this user cannot be the next holder", "slot", slot, "error", err) })
		}
		if errors.Is(err, ledger.ErrSuccessor) {
			c.askForPlace(ctx, slot)
		} else if slot == c.Waiter.Hint() && !slots.LostRace(err) {
			c.Waiter.Missed(line.Hindered) // others may be able to use the slot
		}
		if !c.session.Usable() {
			return
		}
	}
}

// askForPlace asks the successor to step back, if this contender has a priority above the least.
func (c *Contender) askForPlace(ctx context.Context, slot int) {
	if c.Waiter.Priority == 0 {
		return
	}
	c.Waiter.Join(ctx) // or the place goes to somebody else
	_, err := c.session.Lender.Publish(ctx, c.Holder.Names.Ledger(slot), ledger.YieldRequest(c.Waiter.Priority))
	c.log.Debug("asked the successor to step back", "slot", slot, "error", err)
}

// stand waits until the command may start in the slot whose successor this contender is. A place that is lost is none:
// another attempt follows.
func (c *Contender) stand(ctx context.Context) error {
	err := c.successor.Stand(ctx)
	if err == nil {
		c.tell(c.successor.Handover()) // it may have been recorded just now
		return nil
	}
	if ctx.Err() != nil {
		return err // Close gives the place back
	}
	c.log.Debug("no longer the successor", "slot", c.successor.Slot(), "because", err)
	c.leave()
	if errors.Is(err, holding.ErrStepBack) || errors.Is(err, holding.ErrElsewhere) {
		return err
	}
	if !c.session.Usable() {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: %s", c.id, err.Error())
	}
	return nil
}

// leave gives up being the successor. It takes its time whatever becomes of its caller: others would wait for a place
// that is recorded and not released.
func (c *Contender) leave() {
	successor := c.successor
	if successor == nil {
		return
	}
	c.successor = nil
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := successor.Release(ctx); err != nil {
		c.log.Debug("cannot leave the successor's place cleanly", "slot", successor.Slot(), "error", err)
	}
	c.Waiter.PassOn() // whatever has become of the slot: with a baton in hand no other would come
	c.tell(lock.Handover{})
}

// seekForeign says if what keeps the only slot of a lock is nobody's claim but a foreign queue. Only a waiter
// that has looked in vain asks: a short wait is not to cost more.
func (c *Contender) seekForeign(ctx context.Context) {
	if b := c.Holder.Names.Holds(1); c.session.Side().Find(ctx, b) == nil {
		c.log.Warn("waiting for a queue that belongs to no berth", "error", c.Holder.Names.Foreign(b))
	}
}

// Close implements lock.Lock. It takes a second at most, and two more if something is just being published.
func (c *Contender) Close() error {
	c.leave()
	answered := make(chan struct{})
	go func() {
		c.Holder.Inbox.Close()
		close(answered)
	}()
	err := c.session.Close()
	<-answered
	if c.held != nil {
		c.held.Wait()
		c.held = nil
	}
	return err
}
