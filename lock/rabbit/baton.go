package rabbit

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

const (
	// A holder is preferred as the consumer of its own baton, so that the
	// batons of a lock are with its holders, and the ones that are left over
	// go to waiters, who remove them.
	holderPriority = 1000

	// batonDelay is how long a holder waits for a baton that is there already
	// before it makes one.
	batonDelay = 100 * time.Millisecond

	// batonPause lies between attempts to take part again after the channel
	// was closed, for example by consumer_timeout.
	batonPause        = time.Second
	longestBatonPause = time.Minute
	fewFailures       = 3 // that are not worth a word

	// batonTimeout bounds the making of a baton.
	batonTimeout = 2 * time.Second

	// passTimeout bounds the handing on of a baton: closing the channel or the
	// connection hands it on as well.
	passTimeout = time.Second
)

// batonOrder is what a contender wants of its place among the batons.
type batonOrder int

const (
	listen batonOrder = iota // wake me: I wait
	keep                     // I hold a slot: keep a baton for me
	drop                     // it was for nothing: remove the one I got
	pass                     // I have given my slot back: let the next one have it
	none                     // I neither wait nor hold, and nobody is to be woken
)

// batons is a contender's part in waking each other: every holder keeps one
// unacknowledged message of the queue W, and the broker hands it to the waiter
// that has waited longest the moment the holder is gone. A baton is a hint and
// never the lock.
//
// One goroutine owns it, on a channel of its own on the holding connection. It
// waits for answers without a deadline, because the connection must not be cut
// for the sake of a hint; it ends with the connection.
type batons struct {
	conn    *conn
	queue   string
	publish func(ctx context.Context) error // a new baton
	log     hclog.Logger

	orders  chan batonOrder
	passed  chan struct{} // receives when a pass is done
	arrived chan struct{} // receives when a baton has come
	refused chan struct{} // closed when the broker does not let us take part
}

func newBatons(c *conn, queue string, publish func(ctx context.Context) error, log hclog.Logger) *batons {
	b := &batons{
		conn: c, queue: queue, publish: publish, log: log,
		orders:  make(chan batonOrder, 8),
		passed:  make(chan struct{}, 1),
		arrived: make(chan struct{}, 1),
		refused: make(chan struct{}),
	}
	go b.run()
	return b
}

// order never waits: when the goroutine is behind, a hint is lost.
func (b *batons) order(o batonOrder) {
	select {
	case b.orders <- o:
	default:
	}
}

// handOn passes the baton on and waits until that is done, within limits.
func (b *batons) handOn(ctx context.Context) {
	select {
	case <-b.passed: // of a pass that nobody had the patience for
	default:
	}
	b.order(pass)
	patience := time.NewTimer(passTimeout)
	defer patience.Stop()
	select {
	case <-b.passed:
	case <-b.refused:
	case <-b.conn.done:
	case <-ctx.Done():
	case <-patience.C:
	}
}

func (b *batons) run() {
	wanted := none // what the contender is: a waiter (listen), a holder (keep), or neither
	for pause, failures := batonPause, 1; ; pause, failures = min(2*pause, longestBatonPause), failures+1 {
		p := &place{batons: b}
		began := time.Now()
		err := p.serve(&wanted)
		if b.conn.broken() {
			return
		}
		if errors.Is(b.conn.explain(op{"take part in", b.queue, "configure and read permission on it"}, err), lock.ErrDenied) {
			b.log.Warn("waiters of this lock cannot be woken and look from time to time instead", "queue", b.queue, "error", err)
			close(b.refused)
			return
		}
		if time.Since(began) > longestBatonPause { // it went well for a while
			pause, failures = batonPause, 1
		}
		b.log.Debug("taking part in the batons again", "queue", b.queue, "error", err)
		if failures == fewFailures {
			b.log.Warn("waiters of this lock may not be woken and look from time to time instead", "queue", b.queue, "error", err)
		}
		select {
		case <-b.conn.done:
			return
		case <-time.After(pause):
		}
	}
}

// place is the life of one channel.
type place struct {
	*batons
	ch         *amqp.Channel
	priority   int // of the consumer
	deliveries <-chan amqp.Delivery
	inHand     *amqp.Delivery
	keeping    bool // for a holder
}

// serve obeys orders until the channel is closed.
func (p *place) serve(wanted *batonOrder) (err error) {
	if p.ch, err = p.conn.amqp.Channel(); err != nil {
		return err
	}
	closes := p.ch.NotifyClose(make(chan *amqp.Error, 1))
	make1 := time.NewTimer(0)
	make1.Stop()
	defer make1.Stop()
	for ready := p.obey(*wanted, make1); ; {
		if ready != nil {
			return ready
		}
		select {
		case o := <-p.orders:
			ready = p.obey(o, make1)
			switch o {
			case drop:
			case pass:
				*wanted = none
			default:
				*wanted = o
			}
		case d, open := <-p.deliveries:
			if !open {
				p.deliveries = nil
				continue // the channel's close says why
			}
			p.inHand = &d
			if *wanted == listen {
				p.ring()
			}
		case <-make1.C:
			if p.inHand == nil && *wanted == keep {
				p.makeOne()
			}
		case reason := <-closes:
			if reason == nil {
				return amqp.ErrClosed
			}
			return reason
		}
	}
}

func (p *place) makeOne() {
	ctx, cancel := context.WithTimeout(context.Background(), batonTimeout)
	defer cancel()
	if err := p.publish(ctx); err != nil {
		p.log.Debug("no baton made", "queue", p.queue, "error", err)
	}
}

func (p *place) ring() {
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

func (p *place) obey(o batonOrder, make1 *time.Timer) error {
	kept := p.keeping
	p.keeping = o == keep
	switch o {
	case listen:
		if p.inHand == nil {
			if err := p.consume(0); err != nil {
				return err
			}
		}
		if p.inHand != nil {
			p.ring()
		}
		return nil
	case keep:
		if p.inHand != nil {
			return nil
		}
		make1.Reset(batonDelay)
		return p.consume(holderPriority)
	case drop:
		return p.remove()
	case pass:
		return p.pass(kept)
	default:
		if err := p.leave(); err != nil {
			return err
		}
		return p.remove()
	}
}

// remove removes the baton in hand, if there is one.
func (p *place) remove() error {
	if p.inHand == nil {
		return nil
	}
	d := p.inHand
	p.inHand = nil
	return d.Ack(false)
}

// consume takes part with the given priority, and not with another any more. It
// does not if it got a baton in the meantime.
func (p *place) consume(priority int) error {
	if p.deliveries != nil && p.priority == priority {
		return nil
	}
	if err := p.leave(); err != nil || p.inHand != nil {
		return err
	}
	if _, err := p.ch.QueueDeclare(p.queue, true, false, false, false, bounded()); err != nil {
		return err
	}
	if err := p.ch.Qos(1, 0, false); err != nil {
		return err
	}
	deliveries, err := p.ch.Consume(p.queue, consumerTag, false, false, false, false, amqp.Table{"x-priority": int32(priority)})
	p.deliveries, p.priority = deliveries, priority
	return err
}

// consumerTag is unique on its channel, which has one consumer at a time.
const consumerTag = "baton"

// leave ends the consumer. A baton that comes meanwhile is handed back.
func (p *place) leave() error {
	if p.deliveries == nil {
		return nil
	}
	if err := p.ch.Cancel(consumerTag, false); err != nil {
		return err
	}
	for d := range p.deliveries {
		if p.inHand == nil {
			p.inHand = &d
			continue
		}
		if err := d.Nack(false, true); err != nil {
			return err
		}
	}
	p.deliveries = nil
	return nil
}

// pass hands the baton to the next waiter. The consumer goes first: it would
// get its own baton back. A holder that has none yet makes one for the waiter.
func (p *place) pass(kept bool) error {
	err := p.leave()
	switch {
	case err == nil && p.inHand != nil:
		err = p.inHand.Nack(false, true)
		p.inHand = nil
	case err == nil && kept:
		p.makeOne()
	}
	select {
	case p.passed <- struct{}{}:
	default:
	}
	return err
}

// newBaton publishes a baton.
func (l *contender) newBaton(ctx context.Context) error {
	_, err := l.courier.deliver(ctx, l.names.batons(), baton)
	return err
}

// baton is transient: after a restart of the broker holders make new ones.
var baton = amqp.Publishing{Type: "baton", DeliveryMode: amqp.Transient}
