package transport

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// Presence is what a probe found out about a queue.
type Presence int

// What a queue can be. The zero value is Unknown.
const (
	Unknown Presence = iota // nacked: neither there nor not
	Absent                  // or durable, and on a node of a cluster that is down: see Channel.Find
	Present
)

// ErrUnanswered says that a probe was not answered, whatever the reason. The caller
// has another way to look.
var ErrUnanswered = errors.New("no answer to a probe")

// unawaitedReturns is how many messages may come back that nobody waits for, before
// the connection stands still.
const unawaitedReturns = 64

// The default exchange is called amq.default where permissions are granted.
const publishPermission = "write permission on the exchange amq.default"

var probing = operation{verb: "probe for queues", permission: publishPermission}

// Probe finds out which queues exist: one empty mandatory message to each, all
// sent before the first answer is awaited. The message comes back if the queue
// does not exist, and is confirmed either way. The channel is a publishing one.
//
// Errors: ErrUnanswered if the answers did not come, lock.ErrDenied, or that of
// ctx.
func (c *Channel) Probe(ctx context.Context, queues []string) (found []Presence, err error) {
	err = c.do(ctx, probing, func(ch *amqp.Channel) (err error) {
		found, err = c.ask(ch, queues, Message{}, false)
		return err
	})
	return found, declined(ctx, err)
}

// Deliver publishes one message to a queue and returns whether the queue
// exists. The channel is a publishing one.
//
// Errors: as Probe, and ErrUnfit if the broker knows us by another name than the
// message's user-id. After ErrUnanswered the message may or may not have arrived.
func (c *Channel) Deliver(ctx context.Context, queue string, m Message) (Presence, error) {
	var found []Presence
	err := c.do(ctx, operation{"publish to", queue, publishPermission}, func(ch *amqp.Channel) (err error) {
		found, err = c.ask(ch, []string{queue}, m, true)
		return err
	})
	if err != nil {
		return Unknown, declined(ctx, err)
	}
	return found[0], nil
}

// Departure is what leaving a slot takes of the broker. It leaves in one write, so
// that whoever waits for the message has it as soon as can be.
type Departure struct {
	Queue   string // that the message goes to
	Message Message

	Door *Consumer // ends before the message is sent; nil: there is none
	Ack  []uint64  // of its deliveries, that are removed
	Keep uint64    // the last of those that are put back; 0: none

	Remove string // a queue that is deleted after it; "": none

	Wake string // the queue of a message that is sent last and not waited for; "": none
	Call Message
}

// Depart does all of it and waits for the confirm of the message only. Errors: as
// Deliver.
func (c *Channel) Depart(ctx context.Context, d Departure) (Presence, error) {
	var found []Presence
	err := c.do(ctx, operation{"publish to", d.Queue, publishPermission}, func(ch *amqp.Channel) (err error) {
		found, err = c.askAmid(ch, []string{d.Queue}, d.Message, true, d.begin, func() error { return d.end(ch) })
		return err
	})
	if err != nil {
		return Unknown, declined(ctx, err)
	}
	return found[0], nil
}

func (d Departure) begin() error {
	for _, tag := range d.Ack {
		if err := d.Door.Ack(tag); err != nil {
			return err
		}
	}
	if d.Door == nil {
		return nil
	}
	if d.Door.Leave(); d.Keep == 0 {
		return nil
	}
	return d.Door.PutBack(d.Keep)
}

func (d Departure) end(ch *amqp.Channel) error {
	if d.Remove != "" {
		if _, err := ch.QueueDelete(d.Remove, false, false, true); err != nil {
			return err
		}
	}
	if d.Wake != "" {
		return ch.PublishWithContext(context.Background(), "", d.Wake, true, false, d.Call.publishing())
	}
	return nil
}

// declined says that there is a point in looking another way, unless ctx is over or
// somebody has to change something.
func declined(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, lock.ErrDenied) || errors.Is(err, ErrUnfit) {
		return err
	}
	return fmt.Errorf("%w: %s", ErrUnanswered, err.Error())
}

// ask publishes the message to every queue. If the broker blocks the connection
// meanwhile, only a patient one waits for confirms from then on.
func (c *Channel) ask(ch *amqp.Channel, queues []string, m Message, patient bool) ([]Presence, error) {
	return c.askAmid(ch, queues, m, patient, nil, nil)
}

// askAmid is ask with something else in the same write.
func (c *Channel) askAmid(ch *amqp.Channel, queues []string, m Message, patient bool,
	before, after func() error) ([]Presence, error) {
	if c.unsure {
		return nil, errors.New("answers to earlier messages are outstanding")
	}
	if !c.confirming {
		if err := ch.Confirm(false); err != nil {
			return nil, err
		}
		c.confirming = true
	}
	back := map[string]bool{}
	c.drain(nil) // of what was sent and not waited for
	confirms, err := c.publish(ch, queues, m, before, after)
	if err != nil && ch.IsClosed() {
		return nil, c.closure()
	} else if err != nil {
		return nil, err
	}
	for _, confirm := range confirms {
		if !c.confirmed(confirm, back, patient) {
			c.unsure = true
			return nil, errors.New("the broker blocks publishers")
		}
	}
	// amqp091-go hands over what comes back before it looks at the confirm after it.
	c.drain(back)
	if ch.IsClosed() {
		return nil, c.closure() // amqp091-go nacks what is outstanding when a channel closes
	}
	found := make([]Presence, len(queues))
	for i, queue := range queues {
		switch {
		case !confirms[i].Acked():
			found[i] = Unknown
		case back[queue]:
			found[i] = Absent
		default:
			found[i] = Present
		}
	}
	return found, nil
}

// confirmed waits for a confirm, and notes what comes back before it. It returns false
// if the broker blocks the connection, unless a confirm is worth a wait then.
func (c *Channel) confirmed(confirm *amqp.DeferredConfirmation, back map[string]bool, patient bool) bool {
	returns, blocked := c.returns, c.conn.Blocked()
	if patient {
		blocked = nil // the connection is cut soon
	}
	for {
		select {
		case <-confirm.Done():
			return true
		case r, open := <-returns:
			if !open {
				returns = nil
				break
			}
			back[r.RoutingKey] = true
		case <-blocked:
			return false
		}
	}
}

// drain notes what has come back by now.
func (c *Channel) drain(back map[string]bool) {
	for {
		select {
		case r, open := <-c.returns:
			if !open {
				return
			}
			if back != nil {
				back[r.RoutingKey] = true
			}
		default:
			return
		}
	}
}

func (c *Channel) publish(ch *amqp.Channel, queues []string, m Message, before, after func() error) (
	confirms []*amqp.DeferredConfirmation, err error) {
	if len(queues) > 1 || before != nil || after != nil {
		c.conn.socket.Begin(0)
		defer c.conn.socket.End()
	}
	if before != nil {
		if err := before(); err != nil {
			return nil, err
		}
	}
	publishing := m.publishing()
	for _, queue := range queues {
		confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, publishing)
		if err != nil {
			return nil, err
		}
		confirms = append(confirms, confirm)
	}
	if after != nil {
		err = after()
	}
	return confirms, err
}

// closure says why the channel closed.
func (c *Channel) closure() error { return Closure(<-c.closes) }
