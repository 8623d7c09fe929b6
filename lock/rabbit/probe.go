package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// presence is what a probe found out about a queue.
type presence int

const (
	unknown presence = iota // nacked: neither there nor not
	absent                  // or durable, and on a node of a cluster that is down: see courier.find
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
	if err := c.take(ctx); err != nil {
		return nil, declined(ctx, err)
	}
	defer c.give()
	if c.line != nil && !c.line.gone() && isClosed(c.line.blocking()) {
		return nil, fmt.Errorf("%w: the broker blocks publishers", errNoCourier)
	}
	p, err := c.ready(ctx)
	if err != nil {
		return nil, declined(ctx, err)
	}
	var found []presence
	err = p.conn.do(ctx, publishing, func() error {
		found, err = p.ask(queues, amqp.Publishing{}, 0)
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

// deliver publishes one message to a queue and returns whether the queue
// exists. Under an alarm it takes a fresh connection: the first publish of a
// connection gets through.
//
// Errors: as probe, and errUnfit if the broker knows us by another name than the
// message's user-id. After errNoCourier the message may or may not have arrived.
func (c *courier) deliver(ctx context.Context, queue string, message amqp.Publishing) (presence, error) {
	if err := c.take(ctx); err != nil {
		return unknown, declined(ctx, err)
	}
	defer c.give()
	if c.line != nil && isClosed(c.line.blocking()) {
		c.drop()
	}
	p, err := c.ready(ctx)
	if err != nil {
		return unknown, declined(ctx, err)
	}
	var found []presence
	err = p.conn.do(ctx, op{"publish to", queue, "write permission on the exchange amq.default"}, func() error {
		found, err = p.ask([]string{queue}, message, lateConfirm)
		return err
	})
	switch {
	case err == nil:
		return found[0], nil
	case errors.Is(err, lock.ErrDenied), errors.Is(err, errUnfit):
		c.drop()
		return unknown, err
	default:
		c.drop()
		return unknown, declined(ctx, err)
	}
}

// release records in a ledger that a holding is over and its tree dead. A ledger that
// does not exist needs no release.
//
// Errors: as deliver, and lock.ErrUnknown if the broker has not taken the record,
// or cannot say whether the ledger exists.
func (c *courier) release(ctx context.Context, ledger string, who holding) error {
	message, err := record{Record: recordReleased, Term: who.term, ID: who.id}.message()
	if err != nil {
		return err
	}
	found, err := c.deliver(ctx, ledger, message)
	switch {
	case err != nil:
		return err
	case found == present:
		return nil
	case found == unknown:
		return lock.Errorf(lock.ErrUnknown, "the broker has not taken the release of term %d into queue %q", who.term, ledger)
	}
	if err := c.find(ctx, ledger); !errors.Is(err, errNoQueue) {
		return lock.Errorf(lock.ErrUnknown, "the broker returns what is written to queue %q and does not say that it is gone: %v", ledger, err)
	}
	return nil
}

// find looks a durable queue up that a probe has not found: in a cluster on Mnesia a
// probe comes back as well while the queue's node is down (RabbitMQ 3.10.8). Only
// errNoQueue says that it does not exist.
func (c *courier) find(ctx context.Context, queue string) error {
	if err := c.take(ctx); err != nil {
		return declined(ctx, err)
	}
	defer c.give()
	p, err := c.ready(ctx)
	if err != nil {
		return declined(ctx, err)
	}
	finder := &line{conn: p.conn}
	err = finder.find(ctx, queue)
	if finder.ch != nil && !finder.ch.IsClosed() {
		_ = finder.end(ctx)
	}
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
	return fmt.Errorf("%w: %s", errNoCourier, err.Error())
}

// lateConfirm is for how long the confirm of a message is awaited after the
// broker has said that it serves the connection no more. It does confirm what it
// has read before, but what has to be written to disk a little later: the news of
// the alarm overtakes it (RabbitMQ 3.10.8).
const lateConfirm = 2 * time.Second

// ask publishes the message to every queue. If the broker blocks the connection
// meanwhile, confirms are awaited for patience from then on.
func (p *publisher) ask(queues []string, message amqp.Publishing, patience time.Duration) ([]presence, error) {
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
				return nil, errNoCourier
			}
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

func (p *publisher) publish(queues []string, message amqp.Publishing) ([]*amqp.DeferredConfirmation, error) {
	if len(queues) > 1 {
		p.conn.out.begin(0)
		defer p.conn.out.end()
	}
	var confirms []*amqp.DeferredConfirmation
	for _, queue := range queues {
		confirm, err := p.ch.PublishWithDeferredConfirm("", queue, true, false, message)
		if err != nil {
			return nil, err
		}
		confirms = append(confirms, confirm)
	}
	return confirms, nil
}
