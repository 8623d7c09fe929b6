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
	Holder *holding.Holder // of what this contender claims; its Env may be replaced
	Env    *line.Env       // of its place in the line

	id      lock.ID
	session *session.Session
	waiter  *line.Waiter
	finder  *slots.Finder
	writer  *ledger.Writer
	log     hclog.Logger

	soughtForeign bool // whether something foreign is in the place of B was found out

	mu   sync.Mutex    // Release comes from elsewhere
	held *holding.Held // the last one; guarded by mu
}

var _ lock.Lock = (*Contender)(nil)

// New returns a contender that is not connected. It does no I/O.
func New(c Config) *Contender {
	s := session.New(c.Dialer)
	limit := 1
	if c.Names.ID.Kind == lock.Semaphore {
		limit = lock.MaxSlots
	}
	l := &Contender{id: c.Names.ID, Env: line.NewEnv(), session: s, log: c.Log}
	l.waiter = line.NewWaiter(line.Config{
		ID: l.id, Queue: c.Names.Line(), Priority: c.Priority, Limit: limit, Env: l.Env, Log: c.Log,
	}, s)
	l.writer = ledger.NewWriter(s.Publisher, c.Dialer)
	l.Holder = &holding.Holder{
		Names: c.Names, Session: s, Writer: l.writer, Waiter: l.waiter, Avoided: &slots.Avoided{},
		Host: c.Host, PID: c.PID, Env: holding.NewEnv(), Log: c.Log,
	}
	l.finder = &slots.Finder{
		Names: c.Names, Session: s, Avoided: l.Holder.Avoided, Limit: limit, Once: c.Once, Log: c.Log,
	}
	return l
}

// Connect implements lock.Lock.
func (l *Contender) Connect(ctx context.Context) error {
	if err := l.id.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot connect for %s: %w", l.id, err)
	}
	return l.session.Connect(ctx)
}

// Acquire implements lock.Lock.
func (l *Contender) Acquire(ctx context.Context) (lock.Held, error) {
	switch conn := l.session.Conn(); {
	case l.holds():
		return nil, fmt.Errorf("cannot acquire %s: this contender holds a slot of it already; release it first", l.id)
	case conn == nil:
		return nil, lock.Errorf(lock.ErrUnreachable, "cannot acquire %s: not connected", l.id)
	case conn.Broken():
		return nil, conn.BrokenError("cannot acquire " + l.id.String())
	}
	if err := l.waiter.LetOthers(ctx); err != nil {
		return nil, fmt.Errorf("cannot acquire %s: %w", l.id, err)
	}
	l.writer.Settle(ctx)
	var h *holding.Held
	claim := func(ctx context.Context, slot int, atOnce bool) (err error) {
		h, err = l.Holder.Claim(ctx, slot, atOnce)
		return err
	}
	var err error
	if l.id.Kind == lock.Mutex {
		err = l.claimMutex(ctx, claim)
	} else {
		err = l.finder.Search(ctx, l.waiter.Hint(), claim)
	}
	if err != nil {
		l.waiter.Missed(l.outcome(err))
		return nil, err
	}
	l.waiter.Won(h.Slot())
	l.mu.Lock()
	l.held = h
	l.mu.Unlock()
	return h, nil
}

// outcome is what a waiter has to know of a failed attempt.
func (l *Contender) outcome(err error) line.Outcome {
	incomplete := l.finder.Incomplete()
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
func (l *Contender) claimMutex(ctx context.Context, claim slots.Claim) error {
	if l.waiter.Waited() {
		found, err := l.session.Publisher.Probe(ctx, []string{l.Holder.Names.Holds(1)})
		if err == nil && found[0] == transport.Present {
			return l.id.Full()
		}
	}
	err := claim(ctx, 1, false)
	if err != nil && slots.LostRace(err) {
		return l.finder.Full(ctx)
	}
	return err
}

// Wait implements lock.Lock. While every slot is held, or there is none, it waits for
// a baton; otherwise, and where the broker refuses batons, pause counts.
func (l *Contender) Wait(ctx context.Context, pause time.Duration) error {
	if l.session.Conn() == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", l.id)
	}
	if l.finder.Limit == 1 && l.waiter.Waited() {
		l.seekForeign(ctx)
	}
	return l.waiter.Wait(ctx, pause)
}

// seekForeign says once if what keeps the only slot of a lock is nobody's claim but a
// foreign queue. Only who has waited and looked asks: a short wait is not to cost more.
func (l *Contender) seekForeign(ctx context.Context) {
	if l.soughtForeign {
		return
	}
	l.soughtForeign = true
	if b := l.Holder.Names.Holds(1); l.session.Claims().Find(ctx, b) == nil {
		l.log.Warn("waiting for a queue that nobody has claimed", "error", l.Holder.Names.Foreign(b))
	}
}

// Close implements lock.Lock. It takes a second at most, and two more if something is
// just being published.
func (l *Contender) Close() error {
	confirmed := l.session.Close()
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held != nil {
		held.Settle()
	}
	if !confirmed {
		return fmt.Errorf("cannot close %s in order: the broker did not answer within %s; the connection was cut",
			l.id, transport.CloseTimeout)
	}
	return nil
}

// holds reports whether the last slot was not given back yet.
func (l *Contender) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held != nil && !l.held.Over()
}
