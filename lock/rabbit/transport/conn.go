// Package transport is the way to a broker: connections that can be abandoned,
// channels for what the broker may refuse, a publisher with confirms, and messages.
// It knows AMQP 0-9-1 and, with package broker, is the only one that knows its
// library; it does not know what queues and messages mean to a lock.
package transport

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit/broker"
)

const (
	// operationTimeout bounds one operation of the broker. The slowest that
	// belongs to normal work, an exclusive declare, takes milliseconds; a
	// cluster that has lost a node may not answer for half a minute, and then
	// it is better to turn to another node.
	operationTimeout = 5 * time.Second

	// CloseTimeout bounds an orderly close. After it the socket is closed,
	// which frees the same things a little later.
	CloseTimeout = time.Second
)

// Conn is a connection that can be abandoned at any time: no call on it outlives
// its socket. A Dialer makes it. Its methods may be called from several goroutines.
type Conn struct {
	amqp   *amqp.Connection
	socket *broker.Socket
	label  string
	user   string

	cut    atomic.Bool   // abandoned; the library may not have noticed yet
	closed atomic.Bool   // the broker has confirmed Close
	done   chan struct{} // closed once the connection is
	reason *amqp.Error   // why; valid after done; nil if we closed it in order

	mu      sync.Mutex
	blocked chan struct{} // closed while the broker does not serve this connection; guarded by mu
	cutting *time.Timer   // cuts the connection while it is blocked; guarded by mu
}

// blockedPatience is for how long a connection that the broker has blocked is kept. The
// broker does confirm what it has read before, but what has to be written to disk a
// little later: the news of the alarm overtakes it (RabbitMQ 3.10.8). Nothing else is
// answered before the alarm is over.
const blockedPatience = 2 * time.Second

// watch starts the goroutine that closes done and follows the broker's flow control.
// It ends with the connection.
func (c *Conn) watch() {
	closes := c.amqp.NotifyClose(make(chan *amqp.Error, 1))
	blocks := c.amqp.NotifyBlocked(make(chan amqp.Blocking))
	go func() {
		defer close(c.done)
		for {
			select {
			case change, open := <-blocks:
				if !open {
					blocks = nil
					break
				}
				c.flow(change.Active)
			case reason, open := <-closes:
				if !open {
					return
				}
				c.reason = reason
			}
		}
	}()
}

func (c *Conn) flow(blocked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case blocked && !IsClosed(c.blocked):
		close(c.blocked)
		c.cutting = time.AfterFunc(blockedPatience, c.Abandon)
	case !blocked && IsClosed(c.blocked):
		c.blocked = make(chan struct{})
		c.cutting.Stop()
	}
}

// Blocked returns a channel that is closed while the broker, under a memory or disk
// alarm, does not serve this connection, because it has published.
func (c *Conn) Blocked() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked
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

// Label names the broker for messages, without a password.
func (c *Conn) Label() string { return c.label }

// User is the user of the URL. The broker knows us by another name where it takes
// the user from a certificate.
func (c *Conn) User() string { return c.user }

// Heartbeat is the negotiated one.
func (c *Conn) Heartbeat() time.Duration { return c.amqp.Config.Heartbeat }

// Says returns what the broker said of itself under the key (connection.start,
// server-properties), on one line, or "".
func (c *Conn) Says(key string) string {
	s, _ := c.amqp.Properties[key].(string)
	return broker.OneLine(s)
}

// Abandon cuts the connection. The broker then frees what it owned.
func (c *Conn) Abandon() {
	c.cut.Store(true)
	c.socket.Cut()
}

// Close ends the connection in order, or cuts it after CloseTimeout. It reports
// whether the broker confirmed.
func (c *Conn) Close() bool {
	stop := time.AfterFunc(CloseTimeout, c.Abandon)
	defer stop.Stop()
	err := c.amqp.Close()
	c.closed.Store(err == nil)
	c.Abandon()
	<-c.done
	return err == nil
}

// End is Close, or Abandon where nobody waits for an answer: ctx is over, or there
// is nothing left to close.
func (c *Conn) End(ctx context.Context) {
	if ctx.Err() == nil && !c.Broken() {
		c.Close()
		return
	}
	c.Abandon()
	<-c.done
}

// Done is closed once the connection is.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Broken reports whether the connection is of no use any more.
func (c *Conn) Broken() bool { return c.cut.Load() || c.amqp.IsClosed() }

// Abandoned reports whether this side has cut the connection.
func (c *Conn) Abandoned() bool { return c.cut.Load() }

// Orderly reports whether the connection ended with a close that both sides
// know of. Valid after Done.
func (c *Conn) Orderly() bool { return c.closed.Load() || c.reason != nil && c.reason.Server }

// Why describes the end of the connection, for messages.
func (c *Conn) Why() string {
	select {
	case <-c.done:
	case <-time.After(CloseTimeout):
		// Closing, but the library has not told its listeners yet.
		return "was closed"
	}
	switch {
	case c.reason == nil:
		return "was closed by us"
	case c.reason.Server:
		return fmt.Sprintf("was closed by the broker: %d %s", c.reason.Code, broker.OneLine(c.reason.Reason))
	default:
		return "broke: " + broker.OneLine(c.reason.Reason)
	}
}

// BrokenError is the outcome of everything that is asked of a closed connection.
func (c *Conn) BrokenError(what string) error {
	return lock.Errorf(lock.ErrUnreachable, "%s: the connection to %s %s", what, c.label, c.Why())
}

// Bound runs f, which makes calls on the connection, for as long as ctx and 5 s
// allow. When they end it, the connection is abandoned: what f may have obtained
// dies with it. what says what f does, for messages.
func (c *Conn) Bound(ctx context.Context, what string, f func() error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	stop := context.AfterFunc(bounded, c.Abandon)
	err := f()
	if stop() {
		return err
	}
	c.Abandon() // it may be only about to run
	if ctx.Err() != nil {
		return fmt.Errorf("%s: gave up waiting for the broker: %w", what, ctx.Err())
	}
	return lock.Errorf(lock.ErrUnreachable, "%s: no answer from %s within %s", what, c.label, operationTimeout)
}

func (c *Conn) do(ctx context.Context, o operation, f func() error) error {
	return c.Bound(ctx, o.String(), func() error { return c.explain(o, f()) })
}
