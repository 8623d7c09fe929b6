package transport

import (
	"context"
	"fmt"
	"sync/atomic"

	"berth/lock/rabbit/broker"
)

// Lender lends a channel that publishes, or says why there is none.
type Lender func(ctx context.Context, use func(*Channel) error) error

// Lend lends it for as long as use takes.
func (l Lender) Lend(ctx context.Context, use func(*Channel) error) error { return l(ctx, use) }

// Publish publishes one message to a queue and returns whether the queue exists. Errors: as Channel.Publish.
func (l Lender) Publish(ctx context.Context, queue string, m Message) (found Presence, err error) {
	err = l(ctx, func(c *Channel) (err error) {
		found, err = c.Publish(ctx, Batch{Queue: queue, Message: m})
		return err
	})
	return found, err
}

// Publisher publishes over a connection of its own, which it makes when it has something to publish. Its methods may
// be called from several goroutines.
type Publisher struct {
	Lender

	dialer  *Dialer
	role    string
	busy    chan struct{} // full while somebody uses channel
	channel *Channel      // nil: there is no connection
	blocked atomic.Bool   // see Blocked
}

// NewPublisher returns a publisher that connects in this role when it is first used. Close ends it.
func NewPublisher(d *Dialer, role string) *Publisher {
	p := &Publisher{dialer: d, role: role, busy: make(chan struct{}, 1)}
	p.Lender = p.lend
	return p
}

// Connect begins to connect, and does not wait. What comes of it is seen when something is to be published.
func (p *Publisher) Connect() {
	p.busy <- struct{}{}
	go func() {
		defer func() { <-p.busy }()
		ctx, cancel := context.WithTimeout(context.Background(), broker.DialTimeout)
		defer cancel()
		if p.dial(ctx) == nil {
			_ = p.channel.do(ctx, operation{verb: "open a channel"}, p.channel.confirmMode)
		}
	}()
}

func (p *Publisher) dial(ctx context.Context) error {
	conn, err := p.dialer.Dial(ctx, p.role)
	if err == nil {
		p.channel = conn.Channel()
	}
	return err
}

// lend connects where that is necessary, and drops a connection that has failed.
func (p *Publisher) lend(ctx context.Context, use func(*Channel) error) error {
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.busy }()
	if c := p.channel; c != nil && (c.conn.Broken() || c.unsure || IsClosed(c.conn.Blocked())) {
		c.conn.Abandon()
		p.channel = nil
	}
	if p.channel == nil {
		if err := p.dial(ctx); err != nil {
			return notConnected(ctx, err)
		}
	}
	err := use(p.channel)
	p.blocked.Store(IsClosed(p.channel.conn.Blocked()))
	return err
}

// notConnected says that nothing was published. A login that is refused is no missing permission: with the password that
// is in its file a moment later the same will be published.
func notConnected(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrUnanswered, err.Error())
}

// Blocked reports whether the broker, because of an alarm, did not serve what was published last.
func (p *Publisher) Blocked() bool { return p.blocked.Load() }

// Close ends the connection, if there is one, as Conn.Close does. The publisher may be used again. It reports whether
// the broker has answered, which it does not under an alarm.
func (p *Publisher) Close() (answered bool) {
	p.busy <- struct{}{} // the call that has filled it empties it: everything that is asked has a deadline
	defer func() { <-p.busy }()
	if p.channel == nil {
		return true
	}
	conn := p.channel.conn
	p.channel = nil
	return conn.Close()
}
