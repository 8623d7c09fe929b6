package rabbit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"berth/lock"
)

const (
	// A baton can come a moment before its holder's B is gone, and a fixed
	// name can briefly outlive its connection: attempts go on, with pauses of
	// 155 ms altogether, before the baton is taken for a leftover.
	batonTries      = 6
	firstBatonPause = 5 * time.Millisecond

	// courtesy is for how long a contender that has just passed its baton on does
	// not claim again: it would always be faster than the waiter that it has woken,
	// who goes to the end of the queue when it has tried in vain.
	courtesy = 50 * time.Millisecond

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

// Wait implements lock.Lock. While every slot is held, or there is none, it
// waits for a baton; otherwise, and where batons are refused, pause counts.
func (l *contender) Wait(ctx context.Context, pause time.Duration) error {
	if l.conn == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", l.id)
	}
	if !l.patient && l.tries > 0 && l.batons != nil {
		l.batons.order(pass, 0) // what keeps us from the slot need not keep others
		l.tries = 0
	}
	if !l.patient || isClosed(l.takePart().refused) {
		return l.sleep(ctx, pause, nil)
	}
	b := l.batons
	switch {
	case l.tries > 0 && l.tries < batonTries:
		pause = firstBatonPause << (l.tries - 1)
		l.tries++
		return l.sleep(ctx, pause, nil)
	case l.tries > 0:
		b.order(drop, 0)
		l.tries = 0
	}
	l.hint = 0
	b.order(listen, 0)
	l.lookForForeign(ctx)
	if err := l.claims.prepare(ctx); err != nil && l.conn.broken() {
		return err
	}
	return l.sleep(ctx, l.nextLook(), b)
}

// lookForForeign says once if what keeps the only slot of a lock is nobody's claim
// but a foreign queue. Only who has waited and looked asks: a short wait is not to cost more.
func (l *contender) lookForForeign(ctx context.Context) {
	if l.limit() != 1 || l.looks == 0 || l.judged {
		return
	}
	l.judged = true
	if b := l.names.holds(1); l.claims.find(ctx, b) == nil {
		l.log.Warn("waiting for a queue that nobody has claimed", "error", l.names.foreign(b))
	}
}

// nextLook is how long to wait for a baton before looking without one.
func (l *contender) nextLook() time.Duration {
	poll := slowPoll
	switch {
	case l.looks < closeLooks-1 || l.looks < closeLooks && l.batons.waiting.Load():
		poll = firstPoll << l.looks
		l.looks++
	case l.batons.waiting.Load() && l.blind == 0 && !l.unsure: // with it, slots that were not looked at may be free
		poll = seldomPoll
	}
	return poll + rand.N(poll)
}

// sleep returns when the time is over, and sooner if a baton comes, if one may
// have been lost, or if there will be none.
func (l *contender) sleep(ctx context.Context, pause time.Duration, b *batons) error {
	var arrived <-chan int
	var disturbed, refused <-chan struct{}
	if b != nil {
		arrived, disturbed, refused = b.arrived, b.disturbed, b.refused
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("gave up waiting for %s: %w", l.id, ctx.Err())
	case <-l.conn.done:
		return l.conn.brokenError("cannot wait for " + l.id.String())
	case slot := <-arrived:
		l.hint, l.tries, l.looks = slot, 1, 0
	case <-disturbed:
		l.looks = 0
		return l.sleep(ctx, rand.N(firstPoll), nil) // it may concern everybody
	case <-refused:
	case <-timer.C:
	}
	return nil
}

// takePart returns this contender's part in the batons.
func (l *contender) takePart() *batons {
	if l.batons == nil {
		l.batons = newBatons(l)
	}
	return l.batons
}
