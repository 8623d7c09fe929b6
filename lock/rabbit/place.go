package rabbit

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// A holder is preferred as the consumer of its own baton, so that the
	// batons of a lock are with its holders, and the ones that are left over
	// go to waiters, who remove them. Waiters have lock.MaxPriority at most.
	holderPriority = 1000

	// batonDelay is how long a holder waits for a baton that is there already
	// before it makes one. Longer than a queue that has one takes to deliver
	// it; shorter than a waiter's first look, which is 250 ms after it found
	// the lock full.
	batonDelay = 20 * time.Millisecond

	// Pauses before a holder that still has none makes another. The longest is
	// shorter than the time for which waiters look by themselves.
	firstBatonRetry   = time.Second
	longestBatonRetry = 15 * time.Second

	// keepUseless is for how long a waiter keeps a baton that it has passed on:
	// longer than the new one takes to reach another waiter.
	keepUseless = 250 * time.Millisecond

	// batonRenewal is how often a holder has its baton delivered anew: brokers
	// before 4.3 close the channel of a delivery that is older than
	// consumer_timeout, 30 min by default, and the baton would wake a waiter.
	batonRenewal = 10 * time.Minute
)

// errCancelled: the broker ended the consumer, because W was deleted or its node
// went down.
var errCancelled = errors.New("the queue was deleted, or its node went down")

// errNotPassed: a baton for a slot that is none of ours could not be published anew.
var errNotPassed = errors.New("a baton for another lock of this name could not be passed on")

// place is the life of one channel.
type place struct {
	*batons
	ch         *amqp.Channel
	consuming  int // priority of the consumer, meaningful with deliveries
	deliveries <-chan amqp.Delivery
	inHand     *amqp.Delivery

	slot    int           // a holder's; 0: no holder
	missing *time.Timer   // a holder has no baton by then
	empty   bool          // it had none when it won
	retry   time.Duration // before the next one is made
	renewal *time.Timer   // a holder's baton is getting old
	copied  bool          // another waiter was given a copy of the baton in hand
	useless *time.Timer   // it can be removed
}

// serve obeys orders until the channel is closed.
func (p *place) serve(wanted *batonOrder) (err error) {
	if p.ch, err = p.conn.amqp.Channel(); err != nil {
		return err
	}
	closes := p.ch.NotifyClose(make(chan *amqp.Error, 1))
	p.missing, p.renewal, p.useless = stoppedTimer(), stoppedTimer(), stoppedTimer()
	defer p.missing.Stop()
	defer p.renewal.Stop()
	defer p.useless.Stop()
	for err := p.obey(*wanted); ; {
		if err != nil {
			return err
		}
		select {
		case o := <-p.orders:
			err = p.obey(o)
			wanted.follow(o)
		case d, open := <-p.deliveries:
			if !open {
				return p.ended(closes)
			}
			err = p.take(d, wanted.wish)
		case <-p.missing.C:
			p.complete()
		case <-p.renewal.C:
			err = p.renew()
		case <-p.useless.C:
			if p.copied {
				err = p.remove()
			}
		case reason := <-closes:
			return closure(reason)
		}
	}
}

// complete makes the baton that a holder has not got. The one it has may have
// been on its way to a waiter, for another slot, which waiters are to hear of.
func (p *place) complete() {
	switch {
	case p.slot == 0:
		return
	case p.inHand == nil:
		p.missing.Reset(p.retry)
		p.retry = min(2*p.retry, longestBatonRetry)
	case !p.empty || slotOf(*p.inHand) == 0 || slotOf(*p.inHand) == p.slot:
		return
	}
	p.empty = false
	p.make(context.Background(), p.slot)
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// ended says why there are no deliveries any more.
func (p *place) ended(closes <-chan *amqp.Error) error {
	if !p.ch.IsClosed() {
		return errCancelled
	}
	return closure(<-closes)
}

func closure(reason *amqp.Error) error {
	if reason == nil {
		return amqp.ErrClosed
	}
	return reason
}

func (p *place) take(d amqp.Delivery, wish batonWish) error {
	p.inHand, p.copied = &d, false
	switch wish {
	case listen:
		return p.tell()
	case keep:
		p.renewal.Reset(p.period)
	}
	return nil
}

// tell tells the contender, who waits, of the baton in hand, unless another waiter
// has to be told.
func (p *place) tell() error {
	switch {
	case p.copied:
	case p.beyond(*p.inHand):
		return p.passOn(readBaton(*p.inHand))
	default:
		p.ringBell()
	}
	return nil
}

// beyond reports whether the baton is for a slot that this waiter's lock cannot
// have: locks of several kinds and one name share W.
func (p *place) beyond(d amqp.Delivery) bool { return slotOf(d) > p.limit }

// passOn lets another waiter have a baton, and keeps its own for keepUseless, so as
// not to get the new one. One that as many have passed on as take part is of use to
// nobody.
func (p *place) passOn(b baton) error {
	w, err := p.ch.QueueDeclarePassive(p.queue, true, false, false, false, nil)
	if err != nil {
		return err
	}
	b.passed++
	if b.passed >= w.Consumers {
		return p.remove()
	}
	if !p.send(context.Background(), b) {
		return errNotPassed // the end of the channel hands it on
	}
	p.copied = true
	p.useless.Reset(keepUseless)
	return nil
}

// ringBell tells the contender that a baton has come. The newest counts.
func (p *place) ringBell() {
	select {
	case <-p.arrived:
	default:
	}
	p.arrived <- slotOf(*p.inHand)
}

func (p *place) obey(o batonOrder) error {
	switch o.wish {
	case listen:
		p.slot = 0
		if err := p.consume(p.priority); err != nil {
			return err
		}
		p.waiting.Store(true)
		if p.inHand != nil {
			return p.tell()
		}
		return nil
	case keep:
		p.waiting.Store(false)
		p.slot, p.retry, p.empty = o.slot, firstBatonRetry, p.inHand == nil
		p.missing.Reset(batonDelay)
		err := p.consume(holderPriority)
		if p.inHand != nil { // from before, or while it changed its priority
			p.renewal.Reset(p.period)
		}
		return err
	case drop:
		return p.remove()
	case stepAside:
		return p.leave()
	case pass:
		return p.pass()
	default:
		p.slot = 0
		p.waiting.Store(false)
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
	p.inHand, p.copied = nil, false
	return d.Ack(false)
}

// renew has a holder's baton delivered to it again: it is put back, and the
// holder is the consumer of the highest priority.
func (p *place) renew() error {
	if p.inHand == nil || p.slot == 0 {
		return nil
	}
	d := p.inHand
	p.inHand, p.retry = nil, firstBatonRetry
	if err := p.consume(holderPriority); err != nil {
		return err
	}
	p.missing.Reset(firstBatonRetry) // it is there, however long it takes
	return d.Nack(false, true)
}

// consume takes part with the given priority, and not with another any more. It
// does not if there is a baton in hand, or one comes in the meantime.
func (p *place) consume(priority int) error {
	if p.inHand != nil || p.deliveries != nil && p.consuming == priority {
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
	p.deliveries, p.consuming = deliveries, priority
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

// pass hands the baton to the next waiter, and finds out whether there can be one.
func (p *place) pass() error {
	slot := p.slot
	err := p.hand()
	ring(p.passed)
	if err != nil || slot == 0 {
		return err
	}
	w, err := p.ch.QueueDeclarePassive(p.queue, true, false, false, false, nil)
	if err == nil && w.Consumers == 0 {
		ring(p.alone)
	}
	return err
}

// hand hands the baton on. The consumer goes first: it would get its own baton
// back. A holder that has none yet makes one for the waiter; one whose baton is
// for another slot exchanges it.
func (p *place) hand() error {
	if err := p.leave(); err != nil {
		return err
	}
	slot, d := p.slot, p.inHand
	p.slot, p.inHand = 0, nil
	switch {
	case slot == 0 && d == nil:
		return nil
	case d == nil:
		p.make(context.Background(), slot)
		return nil
	case slot != 0 && slotOf(*d) != slot && p.make(context.Background(), slot):
		return d.Ack(false)
	default:
		return d.Nack(false, true)
	}
}
