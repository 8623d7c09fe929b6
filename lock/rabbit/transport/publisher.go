package transport

import (
	"context"

	"berth/lock/rabbit/broker"
)

// Via publishes over the channel that it lends, or says why there is none.
type Via func(ctx context.Context, use func(*Channel) error) error

// Probe is Channel.Probe.
func (v Via) Probe(ctx context.Context, queues []string) (found []Presence, err error) {
	err = v(ctx, func(c *Channel) (err error) {
		found, err = c.Probe(ctx, queues)
		return err
	})
	return found, err
}

// Deliver is Channel.Deliver.
func (v Via) Deliver(ctx context.Context, queue string, m Message) (found Presence, err error) {
	err = v(ctx, func(c *Channel) (err error) {
		found, err = c.Deliver(ctx, queue, m)
		return err
	})
	return found, err
}

// Publisher publishes over a connection of its own, which it makes when it has
// something to publish. Its methods may be called from several goroutines.
//
// Under a memory or disk alarm the broker stops serving a connection that has
// published, so nothing that must be answered goes over it; a fresh connection gets
// its first publish through.
type Publisher struct {
	Via

	dial    func(context.Context) (*Conn, error)
	turn    chan struct{} // has one token; whoever took it may use channel
	channel *Channel      // nil: there is no connection
}

// NewPublisher returns a publisher that connects when it is first used. Close ends it.
func NewPublisher(dial func(context.Context) (*Conn, error)) *Publisher {
	p := &Publisher{dial: dial, turn: make(chan struct{}, 1)}
	p.Via = p.lend
	p.turn <- struct{}{}
	return p
}

// Connect begins to connect, and does not wait. What comes of it is seen when something
// is to be published.
func (p *Publisher) Connect() {
	<-p.turn
	go func() {
		defer func() { p.turn <- struct{}{} }()
		ctx, cancel := context.WithTimeout(context.Background(), broker.DialTimeout)
		defer cancel()
		if conn, err := p.dial(ctx); err == nil {
			p.channel = conn.PublishingChannel()
			_ = p.channel.Open(ctx)
		}
	}()
}

// lend connects where that is necessary, and drops a connection that has failed.
func (p *Publisher) lend(ctx context.Context, use func(*Channel) error) error {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if c := p.channel; c == nil || c.conn.Broken() || c.unsure || IsClosed(c.conn.Blocked()) {
		if c != nil {
			c.conn.Abandon()
			p.channel = nil
		}
		conn, err := p.dial(ctx)
		if err != nil {
			return declined(ctx, err)
		}
		p.channel = conn.PublishingChannel()
	}
	return use(p.channel)
}

// Close ends the connection, if there is one: in order, within CloseTimeout. The
// publisher may be used again. It reports whether the broker has answered, which it
// does not under an alarm.
func (p *Publisher) Close() (answered bool) {
	<-p.turn // whoever has it gives it back: everything that is asked has a deadline
	defer func() { p.turn <- struct{}{} }()
	if p.channel == nil {
		return true
	}
	conn := p.channel.conn
	p.channel = nil
	if IsClosed(conn.Blocked()) {
		conn.Abandon() // it is not answered: do not wait for it
		return false
	}
	return conn.Close()
}
