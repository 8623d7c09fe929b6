package rabbit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

const (
	// batonPause lies between attempts to take part again after the channel
	// was closed, for example by consumer_timeout, or W was deleted; on average,
	// because that can concern everybody at once. The longest, and half of it, is
	// shorter than the time for which waiters look by themselves.
	batonPause        = 100 * time.Millisecond
	longestBatonPause = 15 * time.Second
	fewFailures       = 6 // that are not worth a word

	// batonTimeout bounds the making of a baton.
	batonTimeout = 2 * time.Second

	// passTimeout bounds the handing on of a baton: closing the channel or the
	// connection hands it on as well.
	passTimeout = time.Second

	// makingWay is for how long a holder that has handed its baton on leaves the
	// broker and the processor to the waiter it has woken, if there may be one. A
	// waiter needs about as much until its command runs; the end of two connections
	// at the same time has cost it a millisecond.
	makingWay = 5 * time.Millisecond
)

// batonWish is what a contender wants of its place among the batons.
type batonWish int

const (
	none      batonWish = iota // I neither wait nor hold, and nobody is to be woken
	listen                     // wake me: I wait
	keep                       // I hold a slot: keep a baton for me
	drop                       // it was for nothing: remove the one I got
	stepAside                  // I am about to give my slot back: get ready to pass
	pass                       // I have given it back: let the next one have it
)

// batonOrder is a wish, with the slot that a holder's baton is for.
type batonOrder struct {
	wish batonWish
	slot int
}

// follow makes o the present wish, unless it is for an instant only.
func (w *batonOrder) follow(o batonOrder) {
	switch o.wish {
	case drop, stepAside:
	case pass:
		*w = batonOrder{wish: none}
	default:
		*w = o
	}
}

// batons is a contender's part in waking each other: every holder keeps one
// unacknowledged message of the queue W, and the broker hands it to the waiter
// that has waited longest the moment the holder is gone. A baton is a hint and
// never the lock.
//
// One goroutine owns it, on a channel of its own on the holding connection. It
// waits for answers without a deadline, because the connection must not be cut
// for the sake of a hint; it ends with the connection.
type batons struct {
	conn     *conn
	queue    string
	priority int                                          // as a waiter
	limit    int                                          // no slot beyond it can be of use to us
	publish  func(ctx context.Context, baton baton) error // a new one
	complain func(msg string, args ...any)                // at most once for each contender
	period   time.Duration                                // of renewal
	log      hclog.Logger

	orders    chan batonOrder
	passed    chan struct{} // receives when a pass is done
	alone     chan struct{} // receives after that when nobody else takes part
	arrived   chan int      // receives when a baton has come: the slot it is for, 0 if it does not say
	disturbed chan struct{} // receives when batons may have been lost
	refused   chan struct{} // closed when the broker does not let us take part
	waiting   atomic.Bool   // the broker knows us as a waiter: a baton will reach us
}

func newBatons(l *contender) *batons {
	b := &batons{
		conn: l.conn, queue: l.names.batons(), priority: l.priority, limit: l.limit(), publish: l.newBaton, complain: l.complainOnce, period: l.period, log: l.log,
		orders:    make(chan batonOrder, 8),
		passed:    make(chan struct{}, 1),
		alone:     make(chan struct{}, 1),
		arrived:   make(chan int, 1),
		disturbed: make(chan struct{}, 1),
		refused:   make(chan struct{}),
	}
	go b.run()
	return b
}

// order never waits: when the goroutine is behind, the oldest order is lost, which
// the newer ones have overtaken.
func (b *batons) order(wish batonWish, slot int) {
	for {
		select {
		case b.orders <- batonOrder{wish, slot}:
			return
		default:
		}
		select {
		case <-b.orders:
		default:
		}
	}
}

// handOn passes the baton on and waits until that is done, within limits.
func (b *batons) handOn(ctx context.Context, slot int) {
	for _, earlier := range []chan struct{}{b.passed, b.alone} { // of a pass that nobody had the patience for
		select {
		case <-earlier:
		default:
		}
	}
	b.order(pass, slot)
	patience := time.NewTimer(passTimeout)
	defer patience.Stop()
	select {
	case <-b.passed:
	case <-b.refused: // without a place of our own, but waiters may have theirs
		b.make(ctx, slot)
	case <-b.conn.done:
	case <-ctx.Done():
	case <-patience.C: // two are better than none
		b.make(ctx, slot)
	}
}

// makeWay returns when the waiter that handOn has woken has had the time to get
// on, or when there is none.
func (b *batons) makeWay(ctx context.Context) {
	enough := time.NewTimer(makingWay)
	defer enough.Stop()
	select {
	case <-b.alone:
	case <-b.refused:
	case <-b.conn.done:
	case <-ctx.Done():
	case <-enough.C:
	}
}

// make publishes a baton for the slot and reports whether that worked.
func (b *batons) make(ctx context.Context, slot int) bool { return b.send(ctx, baton{slot: slot}) }

func (b *batons) send(ctx context.Context, baton baton) bool {
	bounded, cancel := context.WithTimeout(ctx, batonTimeout)
	defer cancel()
	err := b.publish(bounded, baton)
	if err != nil {
		b.log.Debug("no baton made", "queue", b.queue, "error", err)
	}
	return err == nil
}

func (b *batons) run() {
	wanted := batonOrder{wish: none} // what the contender is: a waiter (listen), a holder (keep), or neither
	for pause, failures := batonPause, 1; ; pause, failures = min(2*pause, longestBatonPause), failures+1 {
		p := &place{batons: b}
		began := time.Now()
		err := p.serve(&wanted)
		b.waiting.Store(false)
		if b.conn.broken() {
			return
		}
		ring(b.disturbed)
		if errors.Is(b.conn.explain(op{"take part in", b.queue, "configure and read permission on it"}, err), lock.ErrDenied) {
			b.complain("waiters of this lock cannot be woken and look from time to time instead", "queue", b.queue, "error", err)
			close(b.refused)
			return
		}
		if p.ch != nil && !p.ch.IsClosed() {
			_ = p.ch.Close()
		}
		if time.Since(began) > longestBatonPause { // it went well for a while
			pause, failures = batonPause, 1
		}
		b.log.Debug("taking part in the batons again", "queue", b.queue, "error", err)
		if failures == fewFailures {
			b.complain("waiters of this lock may not be woken and look from time to time instead", "queue", b.queue, "error", err)
		}
		if !b.rest(pause/2+rand.N(pause), &wanted) {
			return
		}
	}
}

// rest notes orders for d, without a place. It reports false if the connection
// has ended.
func (b *batons) rest(d time.Duration, wanted *batonOrder) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		select {
		case <-b.conn.done:
			return false
		case <-over.C:
			return true
		case o := <-b.orders:
			wanted.follow(o)
			if o.wish == pass {
				b.make(context.Background(), o.slot)
				ring(b.passed)
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

// baton is what a message of W says. Its zero value is for no slot in particular.
type baton struct {
	slot   int
	passed int // how many waiters have passed it on because the slot is none of theirs
}

// The headers of a baton.
const (
	slotHeader   = "slot"
	passedHeader = "passed"
)

// newBaton publishes a baton.
func (l *contender) newBaton(ctx context.Context, b baton) error {
	found, err := l.courier.deliver(ctx, l.names.batons(), b.message())
	if err == nil && found != present {
		err = errors.New("the broker has not taken it")
	}
	return err
}

// message is transient: after a restart of the broker holders make new batons.
func (b baton) message() amqp.Publishing {
	headers := amqp.Table{slotHeader: int32(b.slot)}
	if b.passed > 0 {
		headers[passedHeader] = int32(b.passed)
	}
	return amqp.Publishing{Type: "baton", DeliveryMode: amqp.Transient, Headers: headers}
}

// readBaton returns what a message of W says; anybody may publish.
func readBaton(d amqp.Delivery) (b baton) {
	if slot, _ := d.Headers[slotHeader].(int32); slot >= 1 && slot <= lock.MaxSlots {
		b.slot = int(slot)
	}
	if passed, _ := d.Headers[passedHeader].(int32); passed > 0 {
		b.passed = int(passed)
	}
	return b
}

// slotOf returns which slot a baton is for, 0 if it does not say.
func slotOf(d amqp.Delivery) int { return readBaton(d).slot }
