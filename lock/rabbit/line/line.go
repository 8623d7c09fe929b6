// Package line is where the waiters of a lock stand in line. Every holder keeps one
// unacknowledged message of the queue W, its baton, and the broker hands it to the
// waiter that has waited longest the moment the holder is gone. A baton is a hint
// and never the lock: the package knows nothing of slots but their numbers.
package line

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

const (
	// Pauses between attempts to take part again after the channel was closed, for
	// example by consumer_timeout, or W was deleted. The longest, and half of it, is
	// shorter than the time for which waiters look by themselves.
	firstRejoinPause   = 100 * time.Millisecond
	longestRejoinPause = 15 * time.Second
	fewFailures        = 6 // that are not worth a word

	// makeTimeout bounds the making of a baton.
	makeTimeout = 2 * time.Second

	// passTimeout bounds the handing on of a baton: closing the channel or the
	// connection hands it on as well.
	passTimeout = time.Second

	// makingWay is for how long a holder that has handed its baton on leaves the
	// broker and the processor to the waiter it has woken, if there may be one. A
	// waiter needs about as much until its command runs; the end of two connections
	// at the same time costs it a millisecond.
	makingWay = 5 * time.Millisecond
)

// wish is what a contender wants of its part in the line.
type wish int

const (
	none      wish = iota // I neither wait nor hold, and nobody is to be woken
	listen                // wake me: I wait
	keep                  // I hold a slot: keep a baton for me
	drop                  // it was for nothing: remove the one I got
	stepAside             // I am about to give my slot back: get ready to pass
	pass                  // I have given it back: let the next one have it
)

// order is a wish, with the slot that a holder's baton is for.
type order struct {
	wish wish
	slot int
}

// follow makes o the present wish, unless it is for an instant only.
func (w *order) follow(o order) {
	switch o.wish {
	case drop, stepAside:
	case pass:
		*w = order{wish: none}
	default:
		*w = o
	}
}

// member is a contender's part in the line: a waiter or a holder.
//
// One goroutine owns it, on a channel of its own. It waits for answers without a
// deadline, because the connection must not be cut for the sake of a hint; it ends
// with the connection.
type member struct {
	Config
	conn     *transport.Conn
	publish  func(ctx context.Context, b baton) error // a new one
	complain func(msg string, err error)

	orders    chan order
	passed    chan struct{} // receives when a pass is done
	alone     chan struct{} // receives after that when nobody else takes part
	arrived   chan int      // receives when a baton has come: the slot it is for, 0 if it does not say
	disturbed chan struct{} // receives when batons may have been lost
	refused   chan struct{} // closed when the broker does not let us take part
	waiting   atomic.Bool   // the broker knows us as a waiter: a baton will reach us
}

func join(c Config, conn *transport.Conn, publish func(context.Context, baton) error,
	complain func(string, error)) *member {
	m := &member{
		Config: c, conn: conn, publish: publish, complain: complain,
		orders:    make(chan order, 8),
		passed:    make(chan struct{}, 1),
		alone:     make(chan struct{}, 1),
		arrived:   make(chan int, 1),
		disturbed: make(chan struct{}, 1),
		refused:   make(chan struct{}),
	}
	go m.run()
	return m
}

// want makes a wish known. It never waits: when the goroutine is behind, the oldest
// order is lost, which the newer ones have overtaken.
func (m *member) want(w wish, slot int) {
	for {
		select {
		case m.orders <- order{w, slot}:
			return
		default:
		}
		select {
		case <-m.orders:
		default:
		}
	}
}

// handOn passes the baton on and waits until that is done, within limits.
func (m *member) handOn(ctx context.Context, slot int) {
	for _, earlier := range []chan struct{}{m.passed, m.alone} { // of a pass that nobody had the patience for
		select {
		case <-earlier:
		default:
		}
	}
	m.want(pass, slot)
	patience := time.NewTimer(passTimeout)
	defer patience.Stop()
	select {
	case <-m.passed:
	case <-m.refused: // without a place of our own, but waiters may have theirs
		m.make(ctx, slot)
	case <-m.conn.Done():
	case <-ctx.Done():
	case <-patience.C: // two are better than none
		m.make(ctx, slot)
	}
}

// makeWay returns when the waiter that handOn has woken has had the time to get
// on, or when there is none.
func (m *member) makeWay(ctx context.Context) {
	enough := time.NewTimer(makingWay)
	defer enough.Stop()
	select {
	case <-m.alone:
	case <-m.refused:
	case <-m.conn.Done():
	case <-ctx.Done():
	case <-enough.C:
	}
}

// make publishes a baton for the slot and reports whether that worked.
func (m *member) make(ctx context.Context, slot int) bool { return m.send(ctx, baton{slot: slot}) }

func (m *member) send(ctx context.Context, baton baton) bool {
	bounded, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	err := m.publish(bounded, baton)
	if err != nil {
		m.Log.Debug("no baton made", "queue", m.Queue, "error", err)
	}
	return err == nil
}

func (m *member) run() {
	wanted := order{wish: none} // what the contender is: a waiter (listen), a holder (keep), or neither
	pauses, failures := transport.Pauses(firstRejoinPause, longestRejoinPause), 0
	for {
		c := newConsumer(m)
		began := time.Now()
		err := c.serve(&wanted)
		m.waiting.Store(false)
		if m.conn.Broken() {
			return
		}
		ring(m.disturbed)
		if errors.Is(err, lock.ErrDenied) {
			m.complain("waiters of this lock cannot be woken and look from time to time instead", err)
			close(m.refused)
			return
		}
		_ = c.channel.Close(context.Background())   // it ends with the connection
		if time.Since(began) > longestRejoinPause { // it went well for a while
			pauses.Reset()
			failures = 0
		}
		m.Log.Debug("taking part in the line again", "queue", m.Queue, "error", err)
		if failures++; failures == fewFailures {
			m.complain("waiters of this lock may not be woken and look from time to time instead", err)
		}
		if !m.rest(pauses.NextBackOff(), &wanted) {
			return
		}
	}
}

// rest notes orders for d, without a place. It reports false if the connection
// has ended.
func (m *member) rest(d time.Duration, wanted *order) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		select {
		case <-m.conn.Done():
			return false
		case <-over.C:
			return true
		case o := <-m.orders:
			wanted.follow(o)
			if o.wish == pass {
				m.make(context.Background(), o.slot)
				ring(m.passed)
			}
		}
	}
}

// ring leaves a sign for whoever waits for one, unless one is there.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
