package line

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/transport"
)

const (
	// A baton can come a moment before its holder's slot is free, and a fixed
	// name can briefly outlive its connection: attempts go on, with pauses of
	// 155 ms altogether, before the baton is taken for a leftover.
	batonTries      = 6
	firstBatonPause = 5 * time.Millisecond

	// Courtesy is for how long a contender that has just passed its baton on does
	// not claim again: it would always be faster than the waiter that it has woken,
	// which goes to the end of the line when it has tried in vain.
	Courtesy = 50 * time.Millisecond

	// A waiter that is woken by batons looks by itself as well, for the case
	// that one was lost, or never made: soon at first, and after half a minute
	// to a minute, in which whoever holds the lock has had every chance to make
	// one, every minute or two. That is for how long a slot can be free at most
	// while somebody waits for it. A look is a few messages, which no broker logs.
	firstPoll  = 250 * time.Millisecond
	closeLooks = 7 // 250 ms to 16 s, each with as much jitter
	seldomPoll = time.Minute

	// slowPoll is for a waiter that batons do not reach for the time being.
	slowPoll = 10 * time.Second
)

// Config says whose place in which line it is.
type Config struct {
	ID       lock.ID
	Queue    string // W
	Priority int    // as a waiter, 0 to lock.MaxPriority
	Limit    int    // no slot beyond it can be of use to this waiter

	Renewal  time.Duration // how often a holder's baton is delivered anew
	Courtesy time.Duration // after a handover, before the next attempt
	Log      hclog.Logger
}

// Outcome is what an attempt to get a slot has come to.
type Outcome int

// The outcomes. The zero value is Hindered.
const (
	Hindered Outcome = iota // something is in the way that no baton tells of
	Full                    // it is worth waiting for a baton
	Doubtful                // and slots that were not looked at may be free
)

// Waiter is a contender's place in the line, through all its connections. Its
// methods are called one at a time. NewWaiter makes it.
type Waiter struct {
	Config
	Looks int // how often it has looked without having been woken

	session    *session.Session
	member     *member   // on the session's connection; nil before the first wait or holding
	complained sync.Once // a line that does not work is worth one warning

	outcome Outcome   // of the last attempt
	tries   int       // attempts since a baton came that found no slot
	hint    int       // the slot that the last baton was for; 0: unknown
	handed  time.Time // when a slot was last given back and the baton passed on
}

// NewWaiter returns a waiter that is not in line yet.
func NewWaiter(c Config, s *session.Session) *Waiter { return &Waiter{Config: c, session: s} }

// takePart returns this contender's part in the line, on its present connection.
func (w *Waiter) takePart() *member {
	if w.member == nil || w.member.conn != w.session.Conn() {
		w.member = join(w.Config, w.session.Conn(), w.publish, w.complain)
	}
	return w.member
}

// publish publishes a new baton.
func (w *Waiter) publish(ctx context.Context, b baton) error {
	found, err := w.session.Publisher.Deliver(ctx, w.Queue, b.message())
	if err == nil && found != transport.Present {
		err = errors.New("the broker has not taken it")
	}
	return err
}

// complain warns once.
func (w *Waiter) complain(msg string, err error) {
	w.complained.Do(func() { w.Log.Warn(msg, "queue", w.Queue, "error", err) })
}

// LetOthers waits until the waiter that this contender has woken has had its turn.
func (w *Waiter) LetOthers(ctx context.Context) error {
	return transport.Sleep(ctx, w.Courtesy-time.Since(w.handed))
}

// Hint is the slot that the last baton was for; 0: unknown.
func (w *Waiter) Hint() int { return w.hint }

// Waited reports whether it has waited in vain since a baton came: the next attempt
// is a look for the case that one was lost.
func (w *Waiter) Waited() bool { return w.Looks > 0 && w.tries == 0 }

// Missed says that an attempt has got no slot.
func (w *Waiter) Missed(o Outcome) {
	w.outcome = o
	if o == Hindered {
		w.Looks = 0
	}
}

// Won says that an attempt has got this slot.
func (w *Waiter) Won(slot int) {
	w.outcome, w.tries, w.Looks, w.hint = Hindered, 0, 0, 0
	w.Keep(slot)
}

// Keep has a baton be kept for the slot that this contender holds.
func (w *Waiter) Keep(slot int) { w.takePart().want(keep, slot) }

// StepAside gets ready to hand the baton on.
func (w *Waiter) StepAside() {
	if w.member != nil {
		w.member.want(stepAside, 0)
	}
}

// HandOn wakes the next waiter for a slot that was given back, and gives it a
// moment.
func (w *Waiter) HandOn(ctx context.Context, slot int) {
	if w.member == nil {
		return
	}
	w.member.handOn(ctx, slot)
	w.handed = time.Now()
	w.member.makeWay(ctx)
}

// Leave leaves the line without waking anybody: nobody is to be faster than the
// holder that has asked for the slot.
func (w *Waiter) Leave() {
	if w.member != nil {
		w.member.want(none, 0)
		w.Looks = 0
	}
}

// Wait returns when another attempt is worthwhile. After a Full one it waits for a
// baton; otherwise, and where the broker refuses batons, pause counts.
func (w *Waiter) Wait(ctx context.Context, pause time.Duration) error {
	patient := w.outcome != Hindered
	if !patient && w.tries > 0 && w.member != nil {
		w.member.want(pass, 0) // what keeps us from the slot need not keep others
		w.tries = 0
	}
	if !patient || transport.IsClosed(w.takePart().refused) {
		return w.sleep(ctx, pause, nil)
	}
	m := w.member
	switch {
	case w.tries > 0 && w.tries < batonTries:
		pause = firstBatonPause << (w.tries - 1)
		w.tries++
		return w.sleep(ctx, pause, nil)
	case w.tries > 0:
		m.want(drop, 0)
		w.tries = 0
	}
	w.hint = 0
	m.want(listen, 0)
	// A lost race has closed the channel: open it while there is time.
	if err := w.session.Claims().Open(ctx); err != nil && !w.session.Connected() {
		return err
	}
	return w.sleep(ctx, w.nextLook(), m)
}

// nextLook is how long to wait for a baton before looking without one.
func (w *Waiter) nextLook() time.Duration {
	poll := slowPoll
	switch {
	case w.Looks < closeLooks-1 || w.Looks < closeLooks && w.member.waiting.Load():
		poll = firstPoll << w.Looks
		w.Looks++
	case w.member.waiting.Load() && w.outcome != Doubtful:
		poll = seldomPoll
	}
	return poll + rand.N(poll)
}

// sleep returns when the time is over, and sooner if a baton comes, if one may
// have been lost, or if there will be none.
func (w *Waiter) sleep(ctx context.Context, pause time.Duration, m *member) error {
	var arrived <-chan int
	var disturbed, refused <-chan struct{}
	if m != nil {
		arrived, disturbed, refused = m.arrived, m.disturbed, m.refused
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("gave up waiting for %s: %w", w.ID, ctx.Err())
	case <-w.session.Conn().Done():
		return w.session.Conn().BrokenError("cannot wait for " + w.ID.String())
	case slot := <-arrived:
		w.hint, w.tries, w.Looks = slot, 1, 0
	case <-disturbed:
		w.Looks = 0
		return w.sleep(ctx, rand.N(firstPoll), nil) // it may concern everybody
	case <-refused:
	case <-timer.C:
	}
	return nil
}
