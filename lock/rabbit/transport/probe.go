package transport

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Probing is how it is found out which queues exist.
type Probing string

// The ways to probe. Zero is ByConfirm.
const (
	// ByConfirm publishes to each queue, in confirm mode: what comes back before its confirm had nowhere to go.
	ByConfirm Probing = "confirm"
	// ByTx does it in a transaction: what comes back before its end had nowhere to go. For brokers without confirms.
	ByTx Probing = "tx"
	// ByPassive declares each queue passively, one after the other, and publishes nothing. The broker closes the channel
	// with each answer that is not yes, and logs it as an error.
	ByPassive Probing = "passive"
)

// Probe finds out which queues exist. An empty mandatory message comes back if its queue does not exist; all are sent
// before the first answer is awaited. See Probing for the other ways.
//
// Errors: ErrUnanswered if the answers did not come, lock.ErrDenied, or that of ctx.
func (l Lender) Probe(ctx context.Context, queues []string) (found []Presence, err error) {
	err = l(ctx, func(c *Channel) (err error) {
		found, err = c.probe(ctx, queues)
		return err
	})
	return found, err
}

// ProbeOne finds out whether one queue exists. It waits for the answer also where the broker has blocked the
// connection. Errors: as Probe.
func (l Lender) ProbeOne(ctx context.Context, queue string) (found Presence, err error) {
	err = l(ctx, func(c *Channel) (err error) {
		if c.conn.byConfirm() {
			found, err = c.Publish(ctx, Batch{Queue: queue})
			return err
		}
		all, err := c.probe(ctx, []string{queue})
		if err == nil {
			found = all[0]
		}
		return err
	})
	return found, err
}

// For how long, and with which pauses, a node is asked for a queue that another one has just made: it may hear of it a
// moment later.
const (
	knownTimeout = time.Second
	knownPause   = 100 * time.Millisecond
)

// Knows finds out whether the node knows a queue that was just made through another one: both are of one cluster then.
// Errors: as Lender.Probe.
func (c *Conn) Knows(ctx context.Context, queue string) (Presence, error) {
	bounded, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	channel := c.Channel()
	lender := Lender(func(_ context.Context, use func(*Channel) error) error { return use(channel) })
	for {
		found, err := lender.ProbeOne(ctx, queue)
		if err != nil || found != Absent || Sleep(bounded, knownPause) != nil {
			return found, err
		}
	}
}

// byConfirm reports whether probes need no channel of their own.
func (c *Conn) byConfirm() bool { return c.probing != ByTx && c.probing != ByPassive }

func (c *Channel) probe(ctx context.Context, queues []string) (found []Presence, err error) {
	switch c.conn.probing {
	case ByTx:
		found, err = c.conn.prober.probeByTx(ctx, queues)
	case ByPassive:
		found, err = c.conn.prober.LookAll(ctx, queues)
	default:
		letters := make([]Letter, len(queues))
		for i, queue := range queues {
			letters[i].Queue = queue
		}
		return c.publish(ctx, probing, letters, Batch{}, false)
	}
	if err != nil {
		return nil, declined(ctx, err)
	}
	return found, nil
}

var probing = operation{"probe for queues", "", publishPermission}

// probeByTx publishes in one transaction. The broker fails all of it (406) if one queue refuses its message, as one
// does that is just going: then halves are probed, until it is known which.
func (c *Channel) probeByTx(ctx context.Context, queues []string) (found []Presence, err error) {
	back, err := c.transact(ctx, queues)
	switch n := len(queues); {
	case errors.Is(err, ErrUnfit) && n == 1:
		return []Presence{Unknown}, nil
	case errors.Is(err, ErrUnfit):
		low, err := c.probeByTx(ctx, queues[:n/2])
		if err != nil {
			return nil, err
		}
		high, err := c.probeByTx(ctx, queues[n/2:])
		return append(low, high...), err
	case err != nil:
		return nil, err
	}
	for _, queue := range queues {
		p := Present
		if back[queue] {
			p = Absent
		}
		found = append(found, p)
	}
	return found, nil
}

// transact publishes to each queue in one transaction, and returns which of the messages have come back by its end.
func (c *Channel) transact(ctx context.Context, queues []string) (back map[string]bool, err error) {
	back = map[string]bool{}
	err = c.do(ctx, probing, func(ch *amqp.Channel) error {
		if err := c.txMode(ch); err != nil {
			return err
		}
		committed, gathered := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(gathered)
			gather(c.returns, back, committed)
		}()
		defer func() {
			close(committed)
			<-gathered
		}()
		if err := c.sendProbes(ch, queues); err != nil {
			return err
		}
		err := c.conn.UnlessBlocked(ch.TxCommit) // nothing else needs the connection
		if err == nil && c.conn.Broken() {
			return amqp.ErrClosed
		}
		return err
	})
	return back, err
}

// txMode begins transactions on the channel, if it has none yet.
func (c *Channel) txMode(ch *amqp.Channel) error {
	if c.transacting {
		return nil
	}
	c.returns = c.conn.listen(c, ch)
	err := ch.Tx()
	c.transacting = err == nil
	return err
}

func (c *Channel) sendProbes(ch *amqp.Channel, queues []string) error {
	c.conn.socket.Begin(0)
	defer c.conn.socket.End()
	for _, queue := range queues {
		if err := ch.Publish("", queue, true, false, Message{}); err != nil {
			return err
		}
	}
	return nil
}

// gather notes what comes back until done is closed, and what is there by then: amqp091-go hands over what comes back
// before it looks at the answer after it.
func gather(returns <-chan amqp.Return, back map[string]bool, done <-chan struct{}) {
	for {
		select {
		case r, open := <-returns:
			if !open {
				return
			}
			back[r.RoutingKey] = true
		case <-done:
			if len(returns) == 0 {
				return
			}
		}
	}
}
