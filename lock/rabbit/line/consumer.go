package line

import (
	"context"
	"errors"
	"time"

	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

const (
	// A holder is preferred as the consumer of its own baton, so that the
	// batons of a lock are with its holders, and the ones that are left over
	// go to waiters, who remove them. Waiters have lock.MaxPriority at most.
	holderPriority = 1000

	// missingDelay is how long a holder waits for a baton that is there already
	// before it makes one. Longer than a queue that has one takes to deliver
	// it; shorter than a waiter's first look, which is 250 ms after it found
	// the lock full.
	missingDelay = 20 * time.Millisecond

	// Pauses before a holder that still has none makes another. The longest is
	// shorter than the time for which waiters look by themselves.
	firstRetry   = time.Second
	longestRetry = 15 * time.Second

	// keepUseless is for how long a waiter keeps a baton that it has passed on:
	// longer than the new one takes to reach another waiter.
	keepUseless = 250 * time.Millisecond

	// Renewal is how often a holder has its baton delivered anew: brokers
	// before 4.3 close the channel of a delivery that is older than
	// consumer_timeout, 30 min by default, and the baton would wake a waiter.
	Renewal = 10 * time.Minute
)

// background: the consumer's channel is patient, its operations end with the
// connection.
var background = context.Background()

// errCancelled: the broker ended the consumer, because W was deleted or its node
// went down.
var errCancelled = errors.New("the queue was deleted, or its node went down")

// errNotPassed: a baton for a slot that is none of ours could not be published anew.
var errNotPassed = errors.New("a baton for another lock of this name could not be passed on")

// consumer is a member on one channel: it consumes batons, and has one in hand at
// most.
type consumer struct {
	*member
	channel  *transport.Channel
	current  *transport.Consumer // nil: it does not consume
	priority int32               // of current
	inHand   *transport.Delivery

	slot    int           // a holder's; 0: no holder
	missing *time.Timer   // a holder has no baton by then
	empty   bool          // it had none when it won
	retry   time.Duration // before the next one is made
	renewal *time.Timer   // a holder's baton is getting old
	copied  bool          // another waiter was given a copy of the baton in hand
	useless *time.Timer   // it can be removed
}

func newConsumer(m *member) *consumer {
	return &consumer{
		member: m, channel: m.conn.PatientChannel(),
		missing: stoppedTimer(), renewal: stoppedTimer(), useless: stoppedTimer(),
	}
}

// serve obeys orders until the channel is closed.
func (c *consumer) serve(wanted *order) error {
	if err := c.channel.Open(background); err != nil {
		return err
	}
	closes := c.channel.Closes()
	defer c.missing.Stop()
	defer c.renewal.Stop()
	defer c.useless.Stop()
	for err := c.obey(*wanted); ; {
		if err != nil {
			return err
		}
		select {
		case o := <-c.orders:
			err = c.obey(o)
			wanted.follow(o)
		case d, open := <-c.deliveries():
			if !open && !c.channel.Closed() {
				return errCancelled
			} else if !open {
				return transport.Closure(<-closes)
			}
			err = c.take(d, wanted.wish)
		case <-c.missing.C:
			c.complete()
		case <-c.renewal.C:
			err = c.renew()
		case <-c.useless.C:
			if c.copied {
				err = c.remove()
			}
		case reason := <-closes:
			return transport.Closure(reason)
		}
	}
}

// complete makes the baton that a holder has not got. The one it has may have
// been on its way to a waiter, for another slot, which waiters are to hear of.
func (c *consumer) complete() {
	switch {
	case c.slot == 0:
		return
	case c.inHand == nil:
		c.missing.Reset(c.retry)
		c.retry = min(2*c.retry, longestRetry)
	case !c.empty || slotOf(*c.inHand) == 0 || slotOf(*c.inHand) == c.slot:
		return
	}
	c.empty = false
	c.make(background, c.slot)
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// deliveries receives batons, where it consumes.
func (c *consumer) deliveries() <-chan transport.Delivery {
	if c.current == nil {
		return nil
	}
	return c.current.Deliveries
}

func (c *consumer) take(d transport.Delivery, wish wish) error {
	c.inHand, c.copied = &d, false
	switch wish {
	case listen:
		return c.tell()
	case keep:
		c.renewal.Reset(c.Renewal)
	}
	return nil
}

// tell tells the contender, who waits, of the baton in hand, unless another waiter
// has to be told.
func (c *consumer) tell() error {
	switch {
	case c.copied:
	case c.beyond(*c.inHand):
		return c.passOn(readBaton(*c.inHand))
	default:
		c.notify()
	}
	return nil
}

// beyond reports whether the baton is for a slot that this waiter's lock cannot
// have: locks of several kinds and one name share W.
func (c *consumer) beyond(d transport.Delivery) bool { return slotOf(d) > c.Limit }

// passOn lets another waiter have a baton, and keeps its own for keepUseless, so as
// not to get the new one. One that as many have passed on as take part is of use to
// nobody.
func (c *consumer) passOn(b baton) error {
	_, members, err := c.channel.Count(background, c.Queue)
	if err != nil {
		return err
	}
	b.passed++
	if b.passed >= members {
		return c.remove()
	}
	if !c.send(background, b) {
		return errNotPassed // the end of the channel hands it on
	}
	c.copied = true
	c.useless.Reset(keepUseless)
	return nil
}

// notify tells the contender that a baton has come. The newest counts.
func (c *consumer) notify() {
	select {
	case <-c.arrived:
	default:
	}
	c.arrived <- slotOf(*c.inHand)
}

func (c *consumer) obey(o order) error {
	switch o.wish {
	case listen:
		c.slot = 0
		if err := c.consume(int32(c.Priority)); err != nil {
			return err
		}
		c.waiting.Store(true)
		if c.inHand != nil {
			return c.tell()
		}
		return nil
	case keep:
		c.waiting.Store(false)
		c.slot, c.retry, c.empty = o.slot, firstRetry, c.inHand == nil
		c.missing.Reset(missingDelay)
		err := c.consume(holderPriority)
		if c.inHand != nil { // from before, or while it changed its priority
			c.renewal.Reset(c.Renewal)
		}
		return err
	case drop:
		return c.remove()
	case stepAside:
		return c.leave()
	case pass:
		return c.pass()
	default:
		c.slot = 0
		c.waiting.Store(false)
		if err := c.leave(); err != nil {
			return err
		}
		return c.remove()
	}
}

// remove removes the baton in hand, if there is one.
func (c *consumer) remove() error {
	if c.inHand == nil {
		return nil
	}
	d := c.inHand
	c.inHand, c.copied = nil, false
	return d.Ack(false)
}

// renew has a holder's baton delivered to it again: it is put back, and the
// holder is the consumer of the highest priority.
func (c *consumer) renew() error {
	if c.inHand == nil || c.slot == 0 {
		return nil
	}
	d := c.inHand
	c.inHand, c.retry = nil, firstRetry
	if err := c.consume(holderPriority); err != nil {
		return err
	}
	c.missing.Reset(firstRetry) // it is there, however long it takes
	return d.Nack(false, true)
}

// consume takes part with the given priority, and not with another any more. It
// does not if there is a baton in hand, or one comes in the meantime.
func (c *consumer) consume(priority int32) (err error) {
	if c.inHand != nil || c.current != nil && c.priority == priority {
		return nil
	}
	if err := c.leave(); err != nil || c.inHand != nil {
		return err
	}
	if err := c.channel.Create(background, c.Queue, names.LedgerLength); err != nil {
		return err
	}
	c.priority = priority
	c.current, err = c.channel.Consume(background, c.Queue, transport.Consumption{Priority: priority, Prefetch: 1})
	return err
}

// leave ends the consumer. A baton that comes meanwhile is handed back.
func (c *consumer) leave() error {
	if c.current == nil {
		return nil
	}
	if err := c.current.Cancel(background); err != nil {
		return err
	}
	for d := range c.current.Deliveries {
		if c.inHand == nil {
			c.inHand = &d
			continue
		}
		if err := d.Nack(false, true); err != nil {
			return err
		}
	}
	c.current = nil
	return nil
}

// pass hands the baton to the next waiter, and finds out whether there can be one.
func (c *consumer) pass() error {
	slot := c.slot
	err := c.hand()
	ring(c.passed)
	if err != nil || slot == 0 {
		return err
	}
	_, members, err := c.channel.Count(background, c.Queue)
	if err == nil && members == 0 {
		ring(c.alone)
	}
	return err
}

// hand hands the baton on. The consumer goes first: it would get its own baton
// back. A holder that has none yet makes one for the waiter; one whose baton is
// for another slot exchanges it.
func (c *consumer) hand() error {
	if err := c.leave(); err != nil {
		return err
	}
	slot, d := c.slot, c.inHand
	c.slot, c.inHand = 0, nil
	switch {
	case slot == 0 && d == nil:
		return nil
	case d == nil:
		c.make(background, slot)
		return nil
	case slot != 0 && slotOf(*d) != slot && c.make(background, slot):
		return d.Ack(false)
	default:
		return d.Nack(false, true)
	}
}
