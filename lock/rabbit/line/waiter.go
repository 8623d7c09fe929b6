// Package line is where the waiters of a lock stand in line. The successor for a slot keeps one unacknowledged
// message of the queue W, its baton, and passes it on when its command runs and another waiter may be the successor. If
// it dies, the broker hands the baton to the waiter that has waited longest. A baton is a hint and never the lock: the
// package knows nothing of slots but their numbers.
package line

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/transport"
)

const (
	// A baton can come a moment before its slot can be had: attempts go on, with pauses of 155 ms altogether, before
	// the baton is taken for a leftover.
	batonTries      = 6
	firstBatonPause = 5 * time.Millisecond

	// A waiter that is woken by batons looks by itself as well, for the case that one was lost, or never made: soon at
	// first, and after half a minute to a minute, in which the successor has had every chance to make one, every
	// minute or two. A look is one question, which no broker logs.
	firstPoll  = 250 * time.Millisecond
	closeLooks = 7 // 250 ms to 16 s, each with as much jitter
	seldomPoll = time.Minute

	// slowPoll is for a waiter that batons do not reach for the time being.
	slowPoll = 10 * time.Second

	// Pauses between attempts to consume again after the channel was closed, for example by consumer_timeout, or W was
	// deleted. The longest, and half of it, is shorter than the time for which waiters look by themselves.
	firstRejoinPause = 100 * time.Millisecond
	maxRejoinPause   = 15 * time.Second
	fewFailures      = 6 // that are not worth a word

	// doubtPause is how often a baton is accepted that nobody vouches for.
	doubtPause = time.Second
)

// Config says whose place in which line it is.
type Config struct {
	ID       lock.ID
	Queue    string // W
	Priority int    // as a waiter, 0 to lock.MaxPriority, or one more: it takes over
	Limit    int    // no slot beyond it can be of use to this waiter
	Once     bool   // it does not wait, nor for those in line

	Renewal time.Duration // how often the baton of a successor is delivered again
	Log     hclog.Logger
}

// Outcome is what an attempt to get a slot has come to.
type Outcome int

// The outcomes. The zero value is Hindered.
const (
	Hindered Outcome = iota // something is in the way that no baton tells of
	Full                    // it is worth waiting for a baton
	Doubtful                // and slots that were not looked at may be free
)

// Waiter is a contender's place in the line, through all its connections. Its methods are called one at a time.
// NewWaiter makes it.
type Waiter struct {
	Config
	Looks   int  // how often it has looked without having been woken
	Arrived bool // it is in line, or has waited
	Taken   bool // there was a reader when it came, and it cannot have the place

	session   *session.Session
	place     *place    // on the session's present connection; nil before the first wait
	complaint sync.Once // a line that does not work is worth one warning

	outcome Outcome // of the last attempt
	tries   int     // attempts since a baton came that found no slot
	hint    int     // the slot that the last baton was for; 0: unknown
	early   bool    // it has stepped back for a higher priority, and is before its own
	behind  bool    // others were in line when it came, and it has not waited yet

	doubted time.Time // when a baton came last that nobody vouches for, and was accepted

	rejoin   *backoff.ExponentialBackOff
	failures int
	again    time.Time // not before that it tries to consume
}

// NewWaiter returns a waiter that is not in line yet.
func NewWaiter(c Config, s *session.Session) *Waiter {
	return &Waiter{Config: c, session: s, rejoin: transport.Pauses(firstRejoinPause, maxRejoinPause)}
}

// Hint is the slot that the last baton was for, or a call for another slot than the one whose successor this contender
// is; 0: none, or unknown.
func (w *Waiter) Hint() int { return w.hint }

// Send is for a successor that has found another slot free.
func (w *Waiter) Send(slot int) { w.hint = slot }

// Waited reports whether it has waited in vain since a baton came: the next attempt is a look for the case that one
// was lost.
func (w *Waiter) Waited() bool { return w.Looks > 0 && w.tries == 0 }

// Missed says that an attempt has got no slot.
func (w *Waiter) Missed(o Outcome) {
	w.outcome = o
	if o == Hindered {
		w.Looks = 0
	}
}

// Patient reports whether it is worthwhile to wait for a slot until it is free.
func (w *Waiter) Patient() bool { return w.outcome != Hindered }

// StepBack is for a successor that makes way for a waiter of a higher priority. It will be the first after those.
func (w *Waiter) StepBack() { w.early, w.outcome = true, Full }

// Called is for a successor that was called to another slot.
func (w *Waiter) Called() { w.outcome, w.tries = Full, 1 }

// InLine reports whether it stands in line before it goes to a reader's place: it has stepped back, others are before
// it, or the place that it comes from is taken. One that has stepped back and looks by itself goes there: the call may
// be lost, or have come in vain.
func (w *Waiter) InLine() bool {
	return (w.behind || w.Taken) && !w.Arrived || w.early && w.hint == 0 && w.Looks == 0
}

// Behind reports whether others were in line when this contender came, which has not waited yet. They go first through
// a reader's place that is free: a waiter that is called needs longer to get there than one that comes by.
func (w *Waiter) Behind(ctx context.Context) bool {
	if w.Arrived || w.Once {
		return false
	}
	if !w.behind {
		others, err := w.session.Main().Create(ctx, w.Queue, names.LineLength)
		w.behind = err == nil && others > 0
		w.Once = errors.Is(err, lock.ErrDenied) // it cannot see who is in line
	}
	return w.behind
}

// at returns the place on the session's present connection.
func (w *Waiter) at() *place {
	if conn := w.session.Conn(); w.place == nil || w.place.channel.Conn() != conn {
		w.place = &place{channel: conn.Channel(), queue: w.Queue}
	}
	return w.place
}

// Join stands in line. It reports false where that does not work for the time being.
func (w *Waiter) Join(ctx context.Context) bool {
	rank := int32(2 * w.Priority)
	if w.early {
		rank++
	}
	return w.consume(ctx, rank)
}

func (w *Waiter) consume(ctx context.Context, priority int32) bool {
	p := w.at()
	if p.denied || time.Now().Before(w.again) {
		return false
	}
	err := p.consume(ctx, priority)
	switch {
	case err == nil:
		w.Arrived = true
	case errors.Is(err, lock.ErrDenied):
		p.denied = true
		w.complain("waiters of this lock cannot be woken and look from time to time instead", err)
	default:
		w.disturbed(err)
	}
	return err == nil
}

// disturbed is for a consumer that has ended, or could not be made.
func (w *Waiter) disturbed(err error) {
	w.Log.Debug("batons do not reach this contender for now", "queue", w.Queue, "error", err)
	if time.Since(w.again) > maxRejoinPause { // it went well for a while
		w.rejoin.Reset()
		w.failures = 0
	}
	if w.failures++; w.failures == fewFailures {
		w.complain("waiters of this lock may not be woken and look from time to time instead", err)
	}
	w.again = time.Now().Add(w.rejoin.NextBackOff())
}

// complain warns once.
func (w *Waiter) complain(msg string, err error) {
	w.complaint.Do(func() { w.Log.Warn(msg, "queue", w.Queue, "error", err) })
}

// Wait returns when another attempt is worthwhile. After a Full one it waits for a baton, and reports whether one has
// come; otherwise, and where the broker refuses batons, pause counts.
func (w *Waiter) Wait(ctx context.Context, pause time.Duration) (called bool, err error) {
	p := w.at()
	before, behind := p.current, w.Patient() && w.Behind(ctx)
	w.Arrived, w.behind = true, false
	switch {
	case !w.Patient():
		if w.tries > 0 {
			p.pass() // what keeps us from the slot need not keep others
			w.tries = 0
		}
		return false, w.sleep(ctx, pause)
	case w.tries > 0 && w.tries < batonTries:
		pause = firstBatonPause << (w.tries - 1)
		w.tries++
		return true, w.sleep(ctx, pause)
	case w.tries > 0:
		p.drop()
		w.tries = 0
	}
	w.hint = 0
	joined := w.Join(ctx)
	switch {
	case p.denied:
		return false, w.sleep(ctx, pause)
	case joined && before == nil && p.inHand == nil && !behind:
		return true, nil // who left before that has called nobody
	}
	timer := time.NewTimer(w.nextLook(joined))
	defer timer.Stop()
	for {
		if p.inHand != nil { // also one that came while the priority changed
			if p.trusts(*p.inHand) || w.doubtful() {
				return w.take(ctx, readBaton(*p.inHand))
			}
			p.drop()
		}
		select {
		case <-ctx.Done():
			return false, p.channel.Conn().WaitError(ctx, w.ID.String())
		case <-p.channel.Conn().Done():
			return false, p.channel.Conn().WaitError(ctx, w.ID.String())
		case d, open := <-p.batons():
			if !open {
				p.current = nil
				w.Looks = 0
				w.disturbed(errors.New("the consumer was ended"))
				return false, w.sleep(ctx, rand.N(firstPoll)) // it may concern everybody
			}
			p.inHand = &d
		case <-timer.C:
			return false, nil
		}
	}
}

// doubtful reports whether a baton is worth a look that nobody vouches for: it may be that of a berth which does not say
// from whom it is. Strangers do not have waiters look more often than that.
func (w *Waiter) doubtful() bool {
	if time.Since(w.doubted) < doubtPause {
		return false
	}
	w.doubted = time.Now()
	return true
}

// nextLook is how long to wait for a baton before looking without one.
func (w *Waiter) nextLook(joined bool) time.Duration {
	poll := slowPoll
	switch {
	case w.Looks < closeLooks-1 || w.Looks < closeLooks && joined:
		poll = firstPoll << w.Looks
		w.Looks++
	case joined && w.outcome != Doubtful:
		poll = seldomPoll
	}
	return poll + rand.N(poll)
}

// sleep ends with the connection.
func (w *Waiter) sleep(ctx context.Context, pause time.Duration) error {
	return w.session.Conn().Sleep(ctx, pause, w.ID.String())
}

// take accepts a baton. One for a slot that this waiter's lock cannot have is published again for others, and kept for
// longer than that takes to reach one of them: locks of several kinds and one name share W. One that as many have
// passed on as are in line is of use to nobody.
func (w *Waiter) take(ctx context.Context, b baton) (called bool, err error) {
	if b.slot <= w.Limit {
		w.hint, w.tries, w.Looks = b.slot, 1, 0
		return true, nil
	}
	_, members, err := w.place.channel.Count(ctx, w.Queue)
	if b.passed++; err == nil && b.passed < members {
		w.publish(ctx, b)
		err = w.sleep(ctx, keepUseless)
	}
	w.place.drop()
	return false, err
}

// publish publishes a new baton.
func (w *Waiter) publish(ctx context.Context, b baton) {
	if _, err := w.session.Lender.Publish(ctx, w.Queue, b.message()); err != nil {
		w.Log.Debug("no baton made", "queue", w.Queue, "error", err)
	}
}

// Won says that an attempt has got this slot, and whether another holder has to end before: then this contender is
// next, and Tend is due.
func (w *Waiter) Won(ctx context.Context, slot int, successor bool) {
	w.outcome, w.tries, w.Looks, w.hint, w.early = Hindered, 0, 0, 0, false
	w.Arrived, w.Taken, w.behind = successor, false, false
	switch {
	case w.place == nil:
	case successor:
		w.answerCall(slot)
	default:
		w.place.leave() // and a call goes to a waiter that may be the successor, once the command runs
	}
	if successor {
		w.at().slot, w.at().kept = slot, time.Now()
		w.Tend(ctx)
	}
}

// answerCall removes a message in hand that was only a call to look, and remembers the slot that it was for, unless that
// is this one: it may be free, and no other waiter has been called.
func (w *Waiter) answerCall(slot int) {
	p := w.place
	if p.inHand == nil || !isCall(*p.inHand) {
		return
	}
	if called := readBaton(*p.inHand).slot; p.trusts(*p.inHand) && called != slot && called <= w.Limit {
		w.hint = called
	}
	p.drop()
}

// Tend keeps a baton for a successor, and reports whether it has one. It is called now and then.
func (w *Waiter) Tend(ctx context.Context) bool {
	p := w.at()
	if p.channel.Closed() {
		p.current, p.spare, p.inHand = nil, nil, nil
	}
	if p.gone() {
		p.current, p.inHand = nil, nil
	}
	if p.inHand != nil && time.Since(p.kept) >= w.Renewal {
		if err := p.renew(ctx); err != nil {
			w.disturbed(err)
		}
		return false // it is on its way
	}
	if p.inHand == nil {
		asked := p.current != nil
		if !w.consume(ctx, successorPriority) {
			return p.denied
		}
		w.receive(p)
		if p.inHand == nil && asked && w.hint == 0 { // a call that was answered takes it elsewhere
			w.publish(ctx, baton{slot: p.slot})
			w.receive(p)
		}
	}
	if w.Limit > 1 {
		if err := p.consumeSpares(ctx); err != nil {
			w.disturbed(err)
		}
	}
	return p.inHand != nil
}

// receive takes the baton of a successor, if it has come. A stranger's message is none, nor is a call.
func (w *Waiter) receive(p *place) {
	p.receive()
	p.weed()
	w.answerCall(p.slot)
}

// Drop removes the baton in hand, and leaves the line.
func (w *Waiter) Drop() {
	w.Arrived = false
	if w.place != nil {
		w.place.leave()
		w.place.drop()
	}
}

// Spares receives what nobody in line wants, for the successor for one slot of several: another may be free sooner,
// and all waiters may be successors for some.
func (w *Waiter) Spares() <-chan transport.Delivery {
	if w.place == nil || w.place.spare == nil {
		return nil
	}
	return w.place.spare.Deliveries
}

// TakeSpare removes what Spares has received. A call is accepted: it returns whether another slot is to be tried. A
// baton was passed on by a holder whose command runs, and a new successor looks at its slot anyway.
func (w *Waiter) TakeSpare(d transport.Delivery, open bool) (accepted bool) {
	if !open {
		w.place.spare = nil
		return false
	}
	_ = d.Ack(false)
	if slot := readBaton(d).slot; isCall(d) && w.place.trusts(d) && slot != w.place.slot && slot <= w.Limit {
		w.hint = slot
		return true
	}
	return false
}

// PassOn lets the next one have the baton. It does not wait, and reports false if there was none.
func (w *Waiter) PassOn() bool {
	return w.place != nil && w.place.channel.Conn() == w.session.Conn() && w.place.pass()
}

// Leave closes the channel, so that nothing stays in hand that came at the last moment. It ends with its answer or
// with the connection.
func (w *Waiter) Leave() {
	w.Arrived = false
	if w.place != nil && w.place.channel.Conn() == w.session.Conn() {
		w.place.channel.BePatient(true)
		_ = w.place.channel.Close(context.Background())
		w.place = nil
	}
}
