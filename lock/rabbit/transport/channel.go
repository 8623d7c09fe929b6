package transport

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// Channel is a channel of a connection for operations that the broker may refuse.
// A refusal closes the channel (AMQP 0-9-1 calls it a channel exception); the
// next operation then opens another. It may be used from several goroutines, whose
// operations wait for each other.
//
// The errors of its methods are ErrNoQueue, ErrTaken, ErrDiffers, lock.ErrDenied,
// lock.ErrUnknown, lock.ErrUnreachable and that of ctx.
type Channel struct {
	conn *Conn
	turn chan struct{} // has one token; whoever took it makes the present operation
	ch   *amqp.Channel // nil, open, or closed by a refusal; of the operation

	cancels    <-chan string      // of ch: consumers that the broker has ended
	returns    <-chan amqp.Return // of ch: what it was given and could not be routed
	closes     <-chan *amqp.Error // of ch: why it was closed
	confirms   bool               // see PublishingChannel
	confirming bool               // ch is in confirm mode
	unsure     bool               // returns that nobody waits for may still come
	patient    atomic.Bool        // see PatientChannel
}

// Channel returns another channel of the connection, which is opened when it is
// first used. An operation whose ctx ends, or that takes too long, cuts the
// connection: what it may have obtained dies with it.
func (c *Conn) Channel() *Channel {
	channel := &Channel{conn: c, turn: make(chan struct{}, 1)}
	channel.turn <- struct{}{}
	return channel
}

// PatientChannel returns a channel whose operations end with their answers or with
// the connection, whatever ctx says: to give one up would mean to cut the
// connection, and a slot with it.
func (c *Conn) PatientChannel() *Channel {
	channel := c.Channel()
	channel.BePatient(true)
	return channel
}

// PublishingChannel returns a channel in confirm mode, which Probe and Deliver need.
func (c *Conn) PublishingChannel() *Channel {
	channel := c.Channel()
	channel.confirms = true
	return channel
}

// BePatient makes the channel a patient one from now on, or one that is not.
func (c *Channel) BePatient(patient bool) { c.patient.Store(patient) }

// Conn returns the connection of the channel.
func (c *Channel) Conn() *Conn { return c.conn }

// Closed reports whether the channel is not open: it was not used yet, or something
// was refused.
func (c *Channel) Closed() bool { return c.ch == nil || c.ch.IsClosed() }

func (c *Channel) open() (*amqp.Channel, error) {
	if !c.Closed() {
		return c.ch, nil
	}
	ch, err := c.conn.amqp.Channel()
	if err != nil {
		return nil, err
	}
	// One listener for the channel's life: amqp091-go waits for each to take
	// what it has to tell. A channel has few consumers, one after the other.
	cancels := ch.NotifyCancel(make(chan string, 16))
	if c.confirms {
		c.returns = ch.NotifyReturn(make(chan amqp.Return, unawaitedReturns))
		c.closes = ch.NotifyClose(make(chan *amqp.Error, 1))
	}
	c.ch, c.cancels, c.confirming, c.unsure = ch, cancels, false, false
	return ch, nil
}

func (c *Channel) do(ctx context.Context, o operation, f func(*amqp.Channel) error) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", o, ctx.Err())
	case <-c.conn.done:
		return c.conn.BrokenError(o.String())
	}
	defer func() { c.turn <- struct{}{} }()
	try := func() error {
		ch, err := c.open()
		if err != nil {
			return err
		}
		return f(ch)
	}
	if c.patient.Load() {
		return c.conn.explain(o, try())
	}
	return c.conn.do(ctx, o, try)
}

// Open opens the channel, ahead of time.
func (c *Channel) Open(ctx context.Context) error {
	if !c.Closed() {
		return nil
	}
	return c.do(ctx, operation{verb: "open a channel"}, func(*amqp.Channel) error { return nil })
}

// Find declares the queue passively: nil means that it exists and is not somebody
// else's.
func (c *Channel) Find(ctx context.Context, queue string) error {
	_, _, err := c.Count(ctx, queue)
	return err
}

// Count is Find, and returns how many messages the queue has that are in nobody's
// hand, and how many consume from it.
func (c *Channel) Count(ctx context.Context, queue string) (messages, consumers int, err error) {
	err = c.do(ctx, looking(queue), func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		messages, consumers = q.Messages, q.Consumers
		return err
	})
	return messages, consumers, err
}

// Claim declares the queue as this connection's own. It keeps no message and
// refuses none: one that is published to it is confirmed and gone.
func (c *Channel) Claim(ctx context.Context, queue string) error {
	return c.ClaimKeeping(ctx, queue, 0)
}

// ClaimKeeping is Claim for a queue that keeps so many messages.
func (c *Channel) ClaimKeeping(ctx context.Context, queue string, length int32) error {
	return c.do(ctx, operation{"claim", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, false, false, true, false, classic(length))
		return err
	})
}

// ClaimAndFind is Claim, and Find for another queue, in one round trip: the broker comes
// to the second only if it has done the first.
//
// An error that wraps ErrTaken means that somebody else has the claim, one that wraps
// ErrNoQueue that the claim is ours and the other queue does not exist. After any other
// it is not known which of the two failed.
func (c *Channel) ClaimAndFind(ctx context.Context, claim, find string) error {
	var raw error
	err := c.do(ctx, operation{"claim", claim, configure}, func(ch *amqp.Channel) error {
		// In one piece: a refusal that came between the two would close the channel
		// under the second, and the broker closes the connection for that.
		c.conn.socket.Begin(2)
		defer c.conn.socket.End()
		if _, raw = ch.QueueDeclare(claim, false, false, true, true, classic(0)); raw == nil {
			_, raw = ch.QueueDeclarePassive(find, false, false, false, false, nil)
		}
		return raw
	})
	switch {
	case err == nil || c.conn.Broken() || refused(raw, claim):
		return err
	case absent(raw, find):
		return c.conn.explain(looking(find), raw)
	case errors.Is(err, ErrTaken):
		// A long name may be cut before the letter that tells the two apart.
		if again := c.Find(ctx, find); again == nil || errors.Is(again, ErrNoQueue) {
			return err
		}
		return lock.Errorf(lock.ErrUnknown, "%s", err.Error())
	}
	return err
}

// CreateAndConsume is Create, and Consume without anybody else, in one round trip.
func (c *Channel) CreateAndConsume(ctx context.Context, queue string, length int32) (*Consumer, error) {
	made := &Consumer{queue: queue, tag: queue, channel: c}
	creating := operation{"create", queue, "configure and read permissions on it"} // whichever was refused
	err := c.do(ctx, creating, func(ch *amqp.Channel) (err error) {
		c.conn.socket.Begin(2)
		defer c.conn.socket.End()
		if _, err = ch.QueueDeclare(queue, true, false, false, true, classic(length)); err == nil {
			made.ch, made.cancels = ch, c.cancels
			made.Deliveries, err = ch.Consume(queue, queue, false, true, false, false, nil)
		}
		return err
	})
	return made, err
}

// Create declares the queue as a durable one for everybody, which keeps so many
// messages: the newest.
func (c *Channel) Create(ctx context.Context, queue string, length int32) error {
	return c.do(ctx, operation{"create", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, classic(length))
		return err
	})
}

// Remove deletes the queue and waits for the answer. A queue that does not exist
// counts as removed.
func (c *Channel) Remove(ctx context.Context, queue string) error {
	return c.do(ctx, operation{"delete", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
}

// Close closes the channel, if there is one. What was got on it and is
// unacknowledged is then back in its queue.
//
// That the broker has closed it meanwhile, because it refuses something that was
// not waited for, is as good: what was got is back, and consumers are gone. That
// the connection broke is not.
func (c *Channel) Close(ctx context.Context) error {
	if c.Closed() || c.conn.Broken() {
		return nil
	}
	return c.do(ctx, operation{verb: "close a channel"}, func(ch *amqp.Channel) error {
		err := ch.Close()
		var answer *amqp.Error
		refused := errors.As(err, &answer) && (answer.Server || answer == amqp.ErrClosed)
		if refused && !c.conn.Broken() {
			return nil
		}
		return err
	})
}

// Closure makes an error of what Closes has received.
func Closure(reason *amqp.Error) error {
	if reason == nil {
		return amqp.ErrClosed
	}
	return reason
}

// MayConfigure asks for a declaration that the broker refuses even where it is
// permitted, so that it changes nothing: RabbitMQ looks at permissions before it
// looks at arguments. lock.ErrDenied means not permitted, ErrUnfit and everything
// else that a broker answers permitted.
func (c *Channel) MayConfigure(ctx context.Context, queue string) error {
	return c.ClaimKeeping(ctx, queue, -1)
}

// MayRead does the same for consuming.
func (c *Channel) MayRead(ctx context.Context, queue string) error {
	return c.do(ctx, consuming(queue), func(ch *amqp.Channel) error {
		_, err := ch.Consume(queue, "", false, false, false, false, amqp.Table{"x-priority": "none"})
		if err == nil {
			// A broker that takes any priority: give back what came.
			return ch.Close()
		}
		return err
	})
}

// classic returns the arguments of a classic queue of that length, whatever the
// default of the virtual host. From 4.0 on a quorum queue discards a message that
// has come back 20 times (delivery limit): a baton comes back with every holder,
// and a record with everybody who reads it.
//
// What does not fit pushes out the oldest. The overflow is given although it is the
// default because a policy could set reject-publish, with which every probe would
// be nacked; an argument overrides the policy.
func classic(length int32) amqp.Table {
	return amqp.Table{"x-queue-type": "classic", "x-max-length": length, "x-overflow": "drop-head"}
}
