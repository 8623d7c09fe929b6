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

	// A waiter that is woken by batons looks by itself as well, for the case
	// that one was lost, or never made: soon at first, at last every 10 to
	// 20 s.
	firstPoll = 250 * time.Millisecond
	slowPoll  = 10 * time.Second
)

// Wait implements lock.Lock. While every slot is held, or there is none, it
// waits for a baton; otherwise, and where batons are refused, pause counts.
func (l *contender) Wait(ctx context.Context, pause time.Duration) error {
	if l.conn == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", l.id)
	}
	if !l.patient || isClosed(l.takePart().refused) {
		_, err := l.sleep(ctx, pause, nil, nil)
		return err
	}
	b := l.batons
	switch {
	case l.tries > 0 && l.tries < batonTries:
		pause = firstBatonPause << (l.tries - 1)
		l.tries++
		_, err := l.sleep(ctx, pause, nil, nil)
		return err
	case l.tries > 0:
		b.order(drop)
		l.tries = 0
	}
	b.order(listen)
	poll := slowPoll
	if l.looks < 6 {
		poll = min(firstPoll<<l.looks, slowPoll)
	}
	l.looks++
	rung, err := l.sleep(ctx, poll+rand.N(poll), b.arrived, b.refused)
	if rung {
		l.tries, l.looks = 1, 0
	}
	return err
}

// sleep returns when the time is over, sooner if a channel says so, and reports
// whether arrived did.
func (l *contender) sleep(ctx context.Context, pause time.Duration, arrived, enough <-chan struct{}) (rung bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, fmt.Errorf("gave up waiting for %s: %w", l.id, ctx.Err())
	case <-l.conn.done:
		return false, l.conn.brokenError("cannot wait for " + l.id.String())
	case <-arrived:
		return true, nil
	case <-enough:
	case <-timer.C:
	}
	return false, nil
}

// takePart returns this contender's part in the batons.
func (l *contender) takePart() *batons {
	if l.batons == nil {
		l.batons = newBatons(l.conn, l.names.batons(), l.newBaton, l.log)
	}
	return l.batons
}
