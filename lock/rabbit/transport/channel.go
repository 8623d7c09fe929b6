package transport

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// Channel is a channel of a connection for operations that the broker may refuse.
// A refusal closes the channel (AMQP 0-9-1 calls it a channel exception); the
// next operation then opens another. One operation at a time.
//
// The errors of its methods are ErrNoQueue, ErrTaken, ErrDiffers, lock.ErrDenied,
// lock.ErrUnknown, lock.ErrUnreachable and that of ctx.
type Channel struct {
	conn *Conn
	ch   *amqp.Channel // nil, open, or closed by a refusal

	cancels <-chan string // of ch: consumers that the broker has ended
	patient bool          // see PatientChannel
}

// Channel returns another channel of the connection, which is opened when it is
// first used. An operation whose ctx ends, or that takes too long, cuts the
// connection: what it may have obtained dies with it.
func (c *Conn) Channel() *Channel { return &Channel{conn: c} }

// PatientChannel returns a channel whose operations end with their answers or with
// the connection, whatever ctx says: to give one up would mean to cut the
// connection, and a slot with it.
func (c *Conn) PatientChannel() *Channel { return &Channel{conn: c, patient: true} }

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
	if err == nil {
		// One listener for the channel's life: amqp091-go waits for each to take
		// what it has to tell. A channel has few consumers, one after the other.
		c.ch, c.cancels = ch, ch.NotifyCancel(make(chan string, 16))
	}
	return ch, err
}

func (c *Channel) do(ctx context.Context, o operation, f func(*amqp.Channel) error) error {
	try := func() error {
		ch, err := c.open()
		if err != nil {
			return err
		}
		return f(ch)
	}
	if c.patient {
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

// ClaimAndGet claims a queue and gets a message of another, in one round trip: the
// broker comes to the second only if it has done the first. The message is nil if
// there is none.
//
// An error that wraps ErrTaken means that somebody else has the claim, one that
// wraps ErrNoQueue that the claim is ours and the other queue does not exist. After
// any other it is not known which of the two failed.
func (c *Channel) ClaimAndGet(ctx context.Context, claim, read string) (got *Delivery, err error) {
	var raw error
	err = c.do(ctx, operation{"claim", claim, configure}, func(ch *amqp.Channel) error {
		// In one piece: a refusal that came between the two would close the channel
		// under the second, and the broker closes the connection for that.
		c.conn.socket.Begin(2)
		defer c.conn.socket.End()
		if _, raw = ch.QueueDeclare(claim, false, false, true, true, classic(0)); raw == nil {
			got, raw = get(ch, read)
		}
		return raw
	})
	switch {
	case err == nil || c.conn.Broken() || refused(raw, claim):
	case absent(raw, read):
		err = c.conn.explain(reading(read), raw)
	case errors.Is(err, ErrTaken):
		err = lock.Errorf(lock.ErrUnknown, "%s", err.Error())
	}
	return got, err
}

// Get gets a message, which stays unacknowledged. It is nil if there is none.
func (c *Channel) Get(ctx context.Context, queue string) (got *Delivery, err error) {
	err = c.do(ctx, reading(queue), func(ch *amqp.Channel) error {
		got, err = get(ch, queue)
		return err
	})
	return got, err
}

func get(ch *amqp.Channel, queue string) (*Delivery, error) {
	d, found, err := ch.Get(queue, false)
	if err != nil || !found {
		return nil, err
	}
	return &d, nil
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

// RemoveConsumed is Remove for a queue that may be consumed from on this channel:
// the broker would tell the consumer of the deletion.
func (c *Channel) RemoveConsumed(ctx context.Context, queue string) error {
	return c.do(ctx, operation{"delete", queue, configure}, func(ch *amqp.Channel) error {
		if err := ch.Cancel(queue, true); err != nil {
			return err
		}
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

// Closes returns a channel that receives why the AMQP channel was closed. The
// channel has to be open.
func (c *Channel) Closes() <-chan *amqp.Error { return c.ch.NotifyClose(make(chan *amqp.Error, 1)) }

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
