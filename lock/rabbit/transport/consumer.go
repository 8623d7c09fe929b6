package transport

import (
	"cmp"
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// keepTimeout is for how long a consumer of a quorum queue may have a message in hand: longer than it ever has. It beats
// consumer_timeout, which RabbitMQ 4.3 and later ends such consumers by, or forgets all of them (its issue 17317).
const keepTimeout = 24 * time.Hour

// Consumption says how to consume. The zero value gets every message at once; the caller acknowledges.
type Consumption struct {
	Create    int32  // above 0: the queue is created first, as Channel.Create does, in the same round trip
	Exclusive bool   // nobody else consumes from the queue
	Quorum    bool   // it is a quorum queue
	NoAck     bool   // nothing is acknowledged
	NoWait    bool   // the broker is not asked for an answer: a refusal ends the deliveries
	Priority  int32  // the consumer of the highest gets the message
	Prefetch  int    // how many messages may be unacknowledged; 0: any number
	Tag       string // tells consumers of one channel apart; "": the name of the queue
}

// Consumer is a consumer of one queue.
type Consumer struct {
	// Deliveries is closed when nothing comes any more.
	Deliveries <-chan Delivery

	queue   string
	tag     string
	channel *Channel
	ch      *amqp.Channel
}

// Consume makes a consumer.
func (c *Channel) Consume(ctx context.Context, queue string, how Consumption) (*Consumer, error) {
	made := &Consumer{queue: queue, tag: cmp.Or(how.Tag, queue), channel: c}
	o := consuming(queue)
	if how.Create > 0 { // whichever is refused
		o = operation{"create", queue, "configure and read permissions on it"}
	}
	err := c.do(ctx, o, func(ch *amqp.Channel) (err error) {
		if how.Prefetch > 0 {
			if err := ch.Qos(how.Prefetch, 0, false); err != nil {
				return err
			}
		}
		var arguments amqp.Table
		if !how.Exclusive { // one that is alone has nobody before it
			arguments = amqp.Table{"x-priority": how.Priority}
		}
		if how.Quorum && c.conn.Since(4, 3) { // which refuses it for classic queues
			arguments["x-consumer-timeout"] = int32(keepTimeout.Milliseconds())
		}
		if how.Create > 0 {
			c.conn.socket.Begin(2)
			defer c.conn.socket.End()
			if _, err := ch.QueueDeclare(queue, true, false, false, true, classic(how.Create)); err != nil {
				return err
			}
		}
		made.ch = ch
		made.Deliveries, err = ch.Consume(queue, made.tag, how.NoAck, how.Exclusive, false, how.NoWait, arguments)
		return err
	})
	return made, err
}

// Cancel ends the consumer. What it got before is among the deliveries, which end then.
func (c *Consumer) Cancel(ctx context.Context) error {
	if c.ch.IsClosed() {
		return nil // the consumer has gone with it
	}
	return c.channel.do(ctx, consuming(c.queue), func(ch *amqp.Channel) error { return ch.Cancel(c.tag, false) })
}

// Leave is Cancel without waiting for the answer. What comes before the broker has done it stays unacknowledged until
// the channel is closed.
func (c *Consumer) Leave() { _ = c.send(func() error { return c.ch.Cancel(c.tag, true) }) }

// PutBack returns all that was delivered on the channel, up to the given delivery, or without exception for 0, to its
// queues. It does not wait: its error says only that the channel has ended.
func (c *Consumer) PutBack(upTo uint64) error {
	return c.send(func() error { return c.ch.Nack(upTo, true, true) })
}

// PutBackOne returns one delivery to its queue. It does not wait.
func (c *Consumer) PutBackOne(tag uint64) { _ = c.ch.Nack(tag, false, true) }

// Ack removes a message that was delivered. It does not wait.
func (c *Consumer) Ack(tag uint64) error { return c.send(func() error { return c.ch.Ack(tag, false) }) }

// send sends what has no answer, before the channel is closed or not at all.
func (c *Consumer) send(f func() error) error {
	c.channel.sending.Lock()
	defer c.channel.sending.Unlock()
	return f()
}

// Dropped reports whether the broker has ended the consumer although its channel is open: its queue is gone. Valid
// once the deliveries have ended and we have not cancelled it: amqp091-go marks a channel as closed before it ends
// the deliveries of its consumers.
func (c *Consumer) Dropped() bool { return !c.ch.IsClosed() }
