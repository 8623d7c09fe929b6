package transport

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Consumption says how to consume. The zero value gets every message at once; the
// caller acknowledges.
type Consumption struct {
	Exclusive bool  // nobody else consumes from the queue; nothing is acknowledged
	NoWait    bool  // the broker is not asked for an answer: a refusal ends the deliveries
	Priority  int32 // the consumer of the highest gets the message
	Prefetch  int   // how many messages may be unacknowledged; 0: any number
}

// Consumer is a consumer of one queue, whose name is its tag.
type Consumer struct {
	// Deliveries is closed when nothing comes any more.
	Deliveries <-chan Delivery

	queue   string
	channel *Channel
	ch      *amqp.Channel
	cancels <-chan string // of ch, which may have had other consumers before
}

// Consume makes a consumer.
func (c *Channel) Consume(ctx context.Context, queue string, how Consumption) (*Consumer, error) {
	made := &Consumer{queue: queue, channel: c}
	err := c.do(ctx, consuming(queue), func(ch *amqp.Channel) (err error) {
		if how.Prefetch > 0 {
			if err := ch.Qos(how.Prefetch, 0, false); err != nil {
				return err
			}
		}
		var arguments amqp.Table
		if !how.Exclusive { // one that is alone has nobody before it
			arguments = amqp.Table{"x-priority": how.Priority}
		}
		made.ch, made.cancels = ch, c.cancels
		made.Deliveries, err = ch.Consume(queue, queue, how.Exclusive, how.Exclusive, false, how.NoWait, arguments)
		return err
	})
	return made, err
}

// Cancel ends the consumer. What it got before is among the deliveries, which end
// then.
func (c *Consumer) Cancel(ctx context.Context) error {
	if c.ch.IsClosed() {
		return nil // the consumer has gone with it
	}
	return c.channel.do(ctx, consuming(c.queue), func(ch *amqp.Channel) error { return ch.Cancel(c.queue, false) })
}

// Dropped reports whether the broker has ended the consumer although its channel is
// open: its queue is gone. Valid after the end of the deliveries; amqp091-go tells
// of the one before it ends the other.
func (c *Consumer) Dropped() bool {
	for {
		select {
		case tag, open := <-c.cancels:
			if tag == c.queue && open {
				return true
			}
			if !open {
				return false
			}
		default:
			return false
		}
	}
}
