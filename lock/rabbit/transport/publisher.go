package transport

import (
	"context"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock/rabbit/broker"
)

// Publisher publishes with confirms, over a connection of its own: under a memory or
// disk alarm the broker stops serving a connection that has published, so nothing
// that must be answered goes over it. Its methods may be called from several
// goroutines.
//
// While the broker says that the connection is blocked, the publisher declines
// probes at once instead of dialling anew for each: under an alarm a fresh
// connection would be blocked after its first publish as well.
type Publisher struct {
	dial    func(context.Context) (*Conn, error)
	turn    chan struct{} // has one token; whoever took it may use current
	current *confirmed    // nil, or the present connection

	breakOff context.CancelFunc // ends Connect
}

// NewPublisher returns a publisher that connects when it is first used. Close ends it.
func NewPublisher(dial func(context.Context) (*Conn, error)) *Publisher {
	c := &Publisher{dial: dial, turn: make(chan struct{}, 1), breakOff: func() {}}
	c.turn <- struct{}{}
	return c
}

// take waits for the turn. The caller gives it back.
func (c *Publisher) take(ctx context.Context) error {
	select {
	case <-c.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Publisher) give() { c.turn <- struct{}{} }

// Connect begins to connect, unless there is a connection, and does not wait: a
// slot that is won has to be recorded at once. What comes of it is seen when
// something is to be published. It ends with Close.
func (c *Publisher) Connect() {
	select {
	case <-c.turn:
	default:
		return // it is in use
	}
	ctx, cancel := context.WithTimeout(context.Background(), broker.DialTimeout)
	c.breakOff = cancel
	go func() {
		defer cancel()
		defer c.give()
		_, _ = c.ready(ctx)
	}()
}

// ErrUnanswered says that a probe was not answered, whatever the reason. The caller
// has another way to look.
var ErrUnanswered = errors.New("no answer to a probe")

// confirmed is one connection of a Publisher, in confirm mode.
type confirmed struct {
	conn *Conn
	ch   *amqp.Channel

	closes    <-chan *amqp.Error        // says why the channel closed
	wanted    chan chan map[string]bool // asks the collector for what was returned
	collected chan struct{}             // closed when the collector has ended

	// stale: a probe was given up, and its answers may still come. They would
	// be taken for answers to the next one. Owned by the prober.
	stale bool

	mu      sync.Mutex
	blocked chan struct{} // closed while the broker does not serve us; guarded by mu
}

// ready returns the present connection, or a new one if there is none.
func (c *Publisher) ready(ctx context.Context) (*confirmed, error) {
	if c.current != nil && !c.current.stale && !c.current.gone() {
		return c.current, nil
	}
	c.drop()
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &confirmed{
		conn:      conn,
		wanted:    make(chan chan map[string]bool),
		collected: make(chan struct{}),
		blocked:   make(chan struct{}),
	}
	go p.heed(conn.amqp.NotifyBlocked(make(chan amqp.Blocking)))
	if err := conn.do(ctx, publishing, p.prepare); err != nil {
		conn.Abandon()
		return nil, err
	}
	c.current = p
	return p, nil
}

func (p *confirmed) prepare() error {
	ch, err := p.conn.amqp.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	p.ch = ch
	p.closes = ch.NotifyClose(make(chan *amqp.Error, 1))
	go p.collect(ch.NotifyReturn(make(chan amqp.Return)))
	return nil
}

func (p *confirmed) gone() bool { return p.conn.Broken() || p.ch.IsClosed() }

// closure says why the channel closed.
func (p *confirmed) closure() error { return Closure(<-p.closes) }

// heed follows the broker's flow control. It ends with the connection.
func (p *confirmed) heed(changes <-chan amqp.Blocking) {
	for change := range changes {
		p.mu.Lock()
		switch {
		case change.Active && !IsClosed(p.blocked):
			close(p.blocked)
		case !change.Active && IsClosed(p.blocked):
			p.blocked = make(chan struct{})
		}
		p.mu.Unlock()
	}
}

// IsClosed reports whether a channel that nothing is sent on was closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// blocking returns a channel that is closed while the broker does not serve us.
func (p *confirmed) blocking() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocked
}

// collect gathers returned messages until somebody asks for them. amqp091-go
// hands over a return before it looks at the confirm that follows it, and
// collect stores one before it takes the next thing: whoever asks after a
// confirm gets every return before that. It ends with the channel.
func (p *confirmed) collect(returns <-chan amqp.Return) {
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
func (p *confirmed) returned() (map[string]bool, bool) {
	reply := make(chan map[string]bool, 1)
	select {
	case p.wanted <- reply:
		return <-reply, true
	case <-p.collected:
		return nil, false
	}
}

// drop cuts the connection.
func (c *Publisher) drop() {
	if c.current != nil {
		c.current.conn.Abandon()
		c.current = nil
	}
}

// Close ends the connection in order, within the deadline of what is under way and
// CloseTimeout.
func (c *Publisher) Close() {
	c.breakOff()
	<-c.turn // whoever has it gives it back: everything that is asked has a deadline
	defer c.give()
	if c.current == nil {
		return
	}
	if p := c.current; IsClosed(p.blocking()) {
		// A blocked connection is not answered: do not wait for it.
		p.conn.Abandon()
	} else {
		p.conn.Close()
	}
	c.current = nil
}
