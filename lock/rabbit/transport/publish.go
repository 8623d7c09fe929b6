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

// ErrUnanswered says that a probe was not answered, whatever the reason. The caller has another way to look.
var ErrUnanswered = errors.New("no answer to a probe")

// unawaitedReturns is how many messages may come back that nobody waits for, before the connection stands still.
const unawaitedReturns = 64

// The default exchange is called amq.default where permissions are granted.
const publishPermission = "write permission on the exchange amq.default"

// Batch is a message, and what leaving a slot takes of the broker besides. It goes out in one write, so that the berth
// that waits for the message has it as soon as can be. Only Queue is needed.
type Batch struct {
	Queue   string // that the message goes to
	Message Message

	Reader *Consumer // ends before the message is sent; nil: there is none
	Ack    []uint64  // of its deliveries, that are removed; the others are put back

	Remove string // a queue that is deleted after it; "": none

	// First puts back what was delivered on another channel of the connection, and does not wait: that goes before the
	// message, and so does the deletion, because under an alarm the broker reads nothing after it. nil: there is nothing.
	First func()

	Wake string // the queue of a message that is sent last and not waited for; "": none
	Call Message
}

// Publish does all of it, waits for the confirm of the message only, and returns whether its queue exists.
//
// Errors: as Lender.Probe, and ErrUnfit if the broker knows us by another name than was known, which is known then.
// After ErrUnanswered the message may or may not have arrived.
func (c *Channel) Publish(ctx context.Context, b Batch) (Presence, error) {
	letters := []Letter{{b.Queue, b.Message}}
	found, err := c.publish(ctx, operation{"publish to", b.Queue, publishPermission}, letters, b, true)
	if err != nil {
		return Unknown, err
	}
	return found[0], nil
}

// Letter is a message, and the queue that it goes to.
type Letter struct {
	Queue   string
	Message Message
}

// Send publishes letters, all sent before the first answer is awaited, and returns of each whether its queue exists.
// Errors: as Lender.Probe, and ErrUnfit as Publish.
func (c *Channel) Send(ctx context.Context, letters []Letter) ([]Presence, error) {
	return c.publish(ctx, operation{"publish", "", publishPermission}, letters, Batch{}, false)
}

// publish does what b says, with letters instead of its message. If the broker blocks the connection meanwhile, only a
// patient caller waits for confirms from then on.
func (c *Channel) publish(ctx context.Context, o operation, letters []Letter, b Batch, patient bool) (
	found []Presence, err error) {
	err = c.do(ctx, o, func(ch *amqp.Channel) (err error) {
		if c.unsure {
			return errors.New("answers to earlier messages are outstanding")
		}
		if err := c.confirmMode(ch); err != nil {
			return err
		}
		for len(c.returns) > 0 {
			<-c.returns // of what was sent and not waited for
		}
		confirms, err := c.send(ch, letters, b)
		if err == nil {
			found, err = c.confirmed(confirms, letters, patient)
		}
		if ch.IsClosed() { // amqp091-go nacks what is outstanding then
			if reason := <-c.closes; reason != nil {
				if user := told(reason); user != "" {
					c.conn.learned(user)
				}
				return reason
			}
			return amqp.ErrClosed
		}
		if c.conn.Broken() { // what came back may have gone elsewhere: see Conn.end
			return amqp.ErrClosed
		}
		return err
	})
	if err != nil {
		return nil, declined(ctx, err)
	}
	return found, nil
}

// confirmMode has the broker confirm what is published from now on. Its answer is awaited, because amqp091-go 1.16 does
// so even where it has asked for none.
func (c *Channel) confirmMode(ch *amqp.Channel) error {
	if c.confirming {
		return nil
	}
	c.returns = c.conn.listen(c, ch)
	c.closes = ch.NotifyClose(make(chan *amqp.Error, 1))
	err := ch.Confirm(false)
	c.confirming = err == nil
	return err
}

// send sends it all in one write. Where the reader's channel has ended, the broker has put back all of it.
func (c *Channel) send(ch *amqp.Channel, letters []Letter, b Batch) (
	confirms []*amqp.DeferredConfirmation, err error) {
	c.conn.socket.Begin(0)
	defer c.conn.socket.End()
	for _, tag := range b.Ack {
		_ = b.Reader.Ack(tag)
	}
	if b.Reader != nil {
		b.Reader.Leave()
		_ = b.Reader.PutBack(0)
	}
	remove := func() (err error) {
		if b.Remove != "" {
			_, err = ch.QueueDelete(b.Remove, false, false, true)
			b.Remove = ""
		}
		return err
	}
	if b.First != nil {
		b.First()
		if err := remove(); err != nil {
			return nil, err
		}
	}
	for _, l := range letters {
		confirm, err := ch.PublishWithDeferredConfirm("", l.Queue, true, false, c.signed(l.Message))
		if err != nil {
			return nil, err
		}
		confirms = append(confirms, confirm)
	}
	if err = remove(); err == nil && b.Wake != "" {
		_, err = ch.PublishWithDeferredConfirm("", b.Wake, true, false, c.signed(b.Call))
	}
	return confirms, err
}

// signed says of a message from whom it is, which the broker validates. Probes say nothing.
func (c *Channel) signed(m Message) Message {
	if m.Type != "" {
		m.UserId = c.conn.User()
	}
	return m
}

// confirmed waits for confirms, and says by what came back before them which of the queues exist.
func (c *Channel) confirmed(confirms []*amqp.DeferredConfirmation, letters []Letter, patient bool) (
	found []Presence, err error) {
	blocked := c.conn.Blocked()
	if patient {
		blocked = nil // the connection is cut soon
	}
	back := map[string]bool{}
	for _, confirm := range confirms {
		for waiting := true; waiting; {
			select {
			case <-confirm.Done():
				waiting = false
			case r := <-c.returns: // amqp091-go ends them and the confirms together
				back[r.RoutingKey] = true
			case <-blocked:
				c.unsure = true
				return nil, errors.New("the broker blocks publishers, because of an alarm")
			}
		}
	}
	// amqp091-go hands over what comes back before it looks at the confirm after it.
	for len(c.returns) > 0 {
		back[(<-c.returns).RoutingKey] = true
	}
	for i, l := range letters {
		p := Present
		if !confirms[i].Acked() {
			p = Unknown
		} else if back[l.Queue] {
			p = Absent
		}
		found = append(found, p)
	}
	return found, nil
}

// declined says that there is a point in looking another way, unless ctx is over or somebody has to change something.
func declined(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, lock.ErrDenied) || errors.Is(err, ErrUnfit) {
		return err
	}
	return fmt.Errorf("%w: %s", ErrUnanswered, err.Error())
}
