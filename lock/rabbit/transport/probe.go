package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// Presence is what a probe found out about a queue.
type Presence int

// What a queue can be. The zero value is Unknown.
const (
	Unknown Presence = iota // nacked: neither there nor not
	Absent                  // or durable, and on a node of a cluster that is down: see Publisher.Find
	Present
)

// publishing is a Publisher's operation. The default exchange is called
// amq.default where permissions are granted.
var publishing = operation{verb: "probe for queues", permission: "write permission on the exchange amq.default"}

// Probe finds out which queues exist: one empty mandatory message to each, all
// sent before the first answer is awaited. The message comes back if the queue
// does not exist, and is confirmed either way.
//
// Errors: ErrUnanswered if the answers did not come, lock.ErrDenied, or that of
// ctx.
func (c *Publisher) Probe(ctx context.Context, queues []string) ([]Presence, error) {
	if err := c.take(ctx); err != nil {
		return nil, declined(ctx, err)
	}
	defer c.give()
	if c.current != nil && !c.current.gone() && IsClosed(c.current.blocking()) {
		return nil, fmt.Errorf("%w: the broker blocks publishers", ErrUnanswered)
	}
	p, err := c.ready(ctx)
	if err != nil {
		return nil, declined(ctx, err)
	}
	var found []Presence
	err = p.conn.do(ctx, publishing, func() error {
		found, err = p.ask(queues, Message{}, 0)
		return err
	})
	if err == nil {
		return found, nil
	}
	p.stale = true
	if !IsClosed(p.blocking()) {
		c.drop()
	}
	if errors.Is(err, lock.ErrDenied) {
		return nil, err
	}
	return nil, declined(ctx, err)
}

// Deliver publishes one message to a queue and returns whether the queue
// exists. Under an alarm it takes a fresh connection: the first publish of a
// connection gets through.
//
// Errors: as probe, and ErrUnfit if the broker knows us by another name than the
// message's user-id. After ErrUnanswered the message may or may not have arrived.
func (c *Publisher) Deliver(ctx context.Context, queue string, message Message) (Presence, error) {
	if err := c.take(ctx); err != nil {
		return Unknown, declined(ctx, err)
	}
	defer c.give()
	if c.current != nil && IsClosed(c.current.blocking()) {
		c.drop()
	}
	p, err := c.ready(ctx)
	if err != nil {
		return Unknown, declined(ctx, err)
	}
	var found []Presence
	err = p.conn.do(ctx, operation{"publish to", queue, "write permission on the exchange amq.default"}, func() error {
		found, err = p.ask([]string{queue}, message, lateConfirm)
		return err
	})
	switch {
	case err == nil:
		return found[0], nil
	case errors.Is(err, lock.ErrDenied), errors.Is(err, ErrUnfit):
		c.drop()
		return Unknown, err
	default:
		c.drop()
		return Unknown, declined(ctx, err)
	}
}

// Find looks a durable queue up that a probe has not found: in a cluster on Mnesia a
// probe comes back as well while the queue's node is down (RabbitMQ 3.10.8). Only
// ErrNoQueue says that it does not exist.
func (c *Publisher) Find(ctx context.Context, queue string) error {
	if err := c.take(ctx); err != nil {
		return declined(ctx, err)
	}
	defer c.give()
	p, err := c.ready(ctx)
	if err != nil {
		return declined(ctx, err)
	}
	finder := p.conn.Channel()
	err = finder.Find(ctx, queue)
	_ = finder.Close(ctx)
	return err
}

func confirmedWithin(confirm *amqp.DeferredConfirmation, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-confirm.Done():
		return true
	case <-timer.C:
		return false
	}
}

// declined says that there is a point in looking another way, unless ctx is over.
func declined(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrUnanswered, err.Error())
}

// lateConfirm is for how long the confirm of a message is awaited after the
// broker has said that it serves the connection no more. It does confirm what it
// has read before, but what has to be written to disk a little later: the news of
// the alarm overtakes it (RabbitMQ 3.10.8).
const lateConfirm = 2 * time.Second

// ask publishes the message to every queue. If the broker blocks the connection
// meanwhile, confirms are awaited for patience from then on.
func (p *confirmed) ask(queues []string, message Message, patience time.Duration) ([]Presence, error) {
	confirms, err := p.publish(queues, message)
	if err != nil && p.gone() {
		return nil, p.closure()
	} else if err != nil {
		return nil, err
	}
	blocked := p.blocking()
	for _, confirm := range confirms {
		select {
		case <-confirm.Done():
			continue
		default:
		}
		select {
		case <-confirm.Done():
		case <-blocked:
			if !confirmedWithin(confirm, patience) {
				return nil, ErrUnanswered
			}
		}
	}
	back, ok := p.returned()
	if !ok || p.ch.IsClosed() {
		// amqp091-go nacks what is outstanding when a channel closes.
		return nil, p.closure()
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

func (p *confirmed) publish(queues []string, message Message) ([]*amqp.DeferredConfirmation, error) {
	if len(queues) > 1 {
		p.conn.socket.Begin(0)
		defer p.conn.socket.End()
	}
	publishing := message.publishing()
	var confirms []*amqp.DeferredConfirmation
	for _, queue := range queues {
		confirm, err := p.ch.PublishWithDeferredConfirm("", queue, true, false, publishing)
		if err != nil {
			return nil, err
		}
		confirms = append(confirms, confirm)
	}
	return confirms, nil
}
