package rabbit

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// presence is what a probe found out about a queue.
type presence int

const (
	unknown presence = iota // nacked: neither there nor not
	absent
	present
)

// publishing describes the courier's operation. The default exchange is called
// amq.default where permissions are granted.
var publishing = op{verb: "probe for queues", permission: "write permission on the exchange amq.default"}

// probe finds out which queues exist: one empty mandatory message to each, all
// sent before the first answer is awaited. The message comes back if the queue
// does not exist, and is confirmed either way.
//
// Errors: errNoCourier if the answers did not come, lock.ErrDenied, or that of
// ctx.
func (c *courier) probe(ctx context.Context, queues []string) ([]presence, error) {
	if c.line != nil && !c.line.gone() && isClosed(c.line.blocking()) {
		return nil, fmt.Errorf("%w: the broker blocks publishers", errNoCourier)
	}
	p, err := c.ready(ctx)
	if err != nil {
		return nil, declined(ctx, err)
	}
	var found []presence
	err = p.conn.do(ctx, publishing, func() error {
		found, err = p.ask(queues)
		return err
	})
	if err == nil {
		return found, nil
	}
	p.stale = true
	if !isClosed(p.blocking()) {
		c.drop()
	}
	if errors.Is(err, lock.ErrDenied) {
		return nil, err
	}
	return nil, declined(ctx, err)
}

// declined says that there is a point in looking another way, unless ctx is over.
func declined(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errNoCourier, err.Error())
}

func (p *publisher) ask(queues []string) ([]presence, error) {
	confirms := make([]*amqp.DeferredConfirmation, len(queues))
	for i, queue := range queues {
		confirm, err := p.ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{})
		if err != nil && p.gone() {
			return nil, p.closure()
		} else if err != nil {
			return nil, err
		}
		confirms[i] = confirm
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
			return nil, errNoCourier
		}
	}
	back, ok := p.returned()
	if !ok || p.ch.IsClosed() {
		// amqp091-go nacks what is outstanding when a channel closes.
		return nil, p.closure()
	}
	found := make([]presence, len(queues))
	for i, queue := range queues {
		switch {
		case !confirms[i].Acked():
			found[i] = unknown
		case back[queue]:
			found[i] = absent
		default:
			found[i] = present
		}
	}
	return found, nil
}
