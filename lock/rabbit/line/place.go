package line

import (
	"context"
	"time"

	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

const (
	// The successor is preferred as the consumer of its own baton, so that the ones that are left over go to waiters,
	// who remove them. Waiters have twice lock.MaxPriority and one at most.
	successorPriority = 1000

	// sparePriority is that of a successor, as the consumer of what nobody in line wants.
	sparePriority = -1

	// keepUseless is for how long a waiter keeps a baton that it has passed on: longer than the new one takes to reach
	// another waiter.
	keepUseless = 250 * time.Millisecond

	// weedPause is for how long the next message of W is waited for where strangers write to it.
	weedPause = 20 * time.Millisecond

	// Renewal is how often a successor has its baton delivered again: brokers before 4.3 close the channel of a
	// delivery that is older than consumer_timeout, 30 min by default, and the baton would wake a waiter.
	Renewal = 10 * time.Minute
)

// place is a contender's place in the line on one connection. It consumes batons on a channel of its own, and has one
// in hand at most.
type place struct {
	channel  *transport.Channel
	queue    string
	denied   bool                // the broker does not let us take part
	current  *transport.Consumer // nil: it does not consume
	priority int32               // of current
	spare    *transport.Consumer // of what nobody in line wants; nil: it has none
	inHand   *transport.Delivery
	slot     int       // whose successor it is
	kept     time.Time // since when it has the baton in hand, or wants one
}

// batons receives batons, where it consumes.
func (p *place) batons() <-chan transport.Delivery {
	if p.current == nil {
		return nil
	}
	return p.current.Deliveries
}

// receive takes a baton that has come.
func (p *place) receive() {
	select {
	case d, open := <-p.batons():
		if open {
			p.inHand, p.kept = &d, time.Now()
		} else {
			p.current = nil
		}
	default:
	}
}

// trusts reports whether a message of W comes from a user of the lock, as the broker has checked it.
func (p *place) trusts(d transport.Delivery) bool { return p.channel.Conn().Trusts(d.UserId) }

// weed removes what comes before the baton of a successor, and is a stranger's: no waiter that gets it from here would
// accept it.
func (p *place) weed() {
	for range names.LineLength {
		if p.inHand == nil || p.trusts(*p.inHand) {
			return
		}
		p.drop()
		select {
		case d, open := <-p.batons():
			if !open {
				p.current = nil
				return
			}
			p.inHand, p.kept = &d, time.Now()
		case <-time.After(weedPause):
			return
		}
	}
}

// gone reports whether the baton in hand is none any more: W was deleted.
func (p *place) gone() bool {
	if p.inHand == nil {
		return false
	}
	select {
	case _, open := <-p.batons():
		return !open
	default:
		return false
	}
}

// consume takes part with the given priority, and not with another any more. It does not if there is a baton in hand,
// or one comes in the meantime.
func (p *place) consume(ctx context.Context, priority int32) (err error) {
	if p.inHand != nil || p.current != nil && p.priority == priority {
		return nil
	}
	if p.current != nil {
		if err := p.current.Cancel(ctx); err != nil {
			return err
		}
		for d := range p.current.Deliveries {
			p.inHand, p.kept = &d, time.Now()
		}
		if p.current = nil; p.inHand != nil {
			return nil
		}
	}
	p.priority = priority
	p.current, err = p.channel.Consume(ctx, p.queue,
		transport.Consumption{Create: names.LineLength, Priority: priority, Prefetch: 1})
	if err != nil {
		p.current = nil
	}
	return err
}

// consumeSpares has what nobody in line wants delivered to a successor.
func (p *place) consumeSpares(ctx context.Context) (err error) {
	if p.spare != nil {
		return nil
	}
	p.spare, err = p.channel.Consume(ctx, p.queue,
		transport.Consumption{Priority: sparePriority, Prefetch: 1, Tag: p.queue + " spare"})
	if err != nil {
		p.spare = nil
	}
	return err
}

// renew has the baton of a successor delivered to it again: it is put back, and the successor is the consumer
// of the highest priority.
func (p *place) renew(ctx context.Context) error {
	d := p.inHand
	p.inHand, p.kept = nil, time.Now()
	if err := p.consume(ctx, successorPriority); err != nil {
		return err
	}
	return d.Nack(false, true)
}

// leave ends the consumers. Nothing is waited for.
func (p *place) leave() {
	for _, c := range []*transport.Consumer{p.spare, p.current} {
		if c != nil {
			c.Leave()
		}
	}
	p.current, p.spare = nil, nil
}

// drop removes the baton in hand, if there is one.
func (p *place) drop() {
	if p.inHand != nil {
		_ = p.inHand.Ack(false)
		p.inHand = nil
	}
}

// pass lets the next waiter have what is in hand, and reports whether that is a baton. The consumers go first, or it
// would come back; what is on its way to them goes back too. Nothing is waited for.
func (p *place) pass() bool {
	p.receive()
	current, inHand := p.current, p.inHand
	p.leave()
	p.inHand = nil
	switch {
	case current != nil && current.PutBack(0) != nil:
		return false
	case current == nil && inHand != nil && inHand.Nack(false, true) != nil:
		return false
	}
	return inHand != nil && !isCall(*inHand)
}
