package rabbit

import (
	"context"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// courier is the connection that publishes. Under a memory or disk alarm the
// broker stops serving a connection that has published, so nothing that must be
// answered goes over it.
//
// While the broker says that the connection is blocked, the courier declines
// probes at once instead of dialling anew for each: under an alarm a fresh
// connection would be blocked after its first publish as well.
type courier struct {
	dial func(context.Context) (*conn, error)
	turn chan struct{} // has one token; who took it may use line
	line *publisher    // nil, or the present connection

	breakOff context.CancelFunc // ends prepare
}

func newCourier(dial func(context.Context) (*conn, error)) *courier {
	c := &courier{dial: dial, turn: make(chan struct{}, 1), breakOff: func() {}}
	c.turn <- struct{}{}
	return c
}

// take waits for the turn. The caller gives it back.
func (c *courier) take(ctx context.Context) error {
	select {
	case <-c.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *courier) give() { c.turn <- struct{}{} }

// prepare begins to connect, unless there is a connection, and does not wait: a
// slot that is won has to be recorded at once. What comes of it is seen when
// something is to be published. It ends with close.
func (c *courier) prepare() {
	select {
	case <-c.turn:
	default:
		return // it is in use
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	c.breakOff = cancel
	go func() {
		defer cancel()
		defer c.give()
		_, _ = c.ready(ctx)
	}()
}

// errNoCourier: the probe was not answered, whatever the reason. The caller has
// another way to look.
var errNoCourier = errors.New("the courier cannot answer")

// publisher is one connection of a courier, in confirm mode.
type publisher struct {
	conn *conn
	ch   *amqp.Channel

	closes    chan *amqp.Error          // says why the channel closed
	wanted    chan chan map[string]bool // asks the collector for what was returned
	collected chan struct{}             // closed when the collector has ended

	// stale: a probe was given up, and its answers may still come. They would
	// be taken for answers to the next one. Owned by the prober.
	stale bool

	mu      sync.Mutex
	blocked chan struct{} // closed while the broker does not serve us; guarded by mu
}

// ready returns the present connection, or a new one if there is none.
func (c *courier) ready(ctx context.Context) (*publisher, error) {
	if c.line != nil && !c.line.stale && !c.line.gone() {
		return c.line, nil
	}
	c.drop()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &publisher{
		conn:      conn,
		closes:    make(chan *amqp.Error, 1),
		wanted:    make(chan chan map[string]bool),
		collected: make(chan struct{}),
		blocked:   make(chan struct{}),
	}
	go p.heed(conn.amqp.NotifyBlocked(make(chan amqp.Blocking)))
	if err := conn.do(ctx, publishing, p.prepare); err != nil {
		conn.abandon()
		return nil, err
	}
	c.line = p
	return p, nil
}

func (p *publisher) prepare() error {
	ch, err := p.conn.amqp.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	p.ch = ch
	ch.NotifyClose(p.closes)
	go p.collect(ch.NotifyReturn(make(chan amqp.Return)))
	return nil
}

func (p *publisher) gone() bool { return p.conn.broken() || p.ch.IsClosed() }

// closure says why the channel closed.
func (p *publisher) closure() error {
	if reason := <-p.closes; reason != nil {
		return reason
	}
	return amqp.ErrClosed
}

// heed follows the broker's flow control. It ends with the connection.
func (p *publisher) heed(changes <-chan amqp.Blocking) {
	for change := range changes {
		p.mu.Lock()
		switch {
		case change.Active && !isClosed(p.blocked):
			close(p.blocked)
		case !change.Active && isClosed(p.blocked):
			p.blocked = make(chan struct{})
		}
		p.mu.Unlock()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// blocking returns a channel that is closed while the broker does not serve us.
func (p *publisher) blocking() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocked
}

// collect gathers returned messages until somebody asks for them. amqp091-go
// hands over a return before it looks at the confirm that follows it, and
// collect stores one before it takes the next thing: whoever asks after a
// confirm gets every return before that. It ends with the channel.
func (p *publisher) collect(returns <-chan amqp.Return) {
	defer close(p.collected)
	gathered := map[string]bool{}
	for {
		select {
		case r, open := <-returns:
			if !open {
				return
			}
			gathered[r.RoutingKey] = true
		case reply := <-p.wanted:
			reply <- gathered
			gathered = map[string]bool{}
		}
	}
}

// returned returns the queues whose probes came back since the last call, and
// false if the channel is closed.
func (p *publisher) returned() (map[string]bool, bool) {
	reply := make(chan map[string]bool, 1)
	select {
	case p.wanted <- reply:
		return <-reply, true
	case <-p.collected:
		return nil, false
	}
}

// drop cuts the connection.
func (c *courier) drop() {
	if c.line != nil {
		c.line.conn.abandon()
		c.line = nil
	}
}

// close ends the connection in order.
func (c *courier) close() {
	c.breakOff()
	<-c.turn // whoever has it gives it back: everything that is asked has a deadline
	defer c.give()
	if c.line == nil {
		return
	}
	if p := c.line; isClosed(p.blocking()) {
		// A blocked connection is not answered: do not wait for it.
		p.conn.abandon()
	} else {
		p.conn.close()
	}
	c.line = nil
}
