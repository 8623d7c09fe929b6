// Package transport is the way to a broker: connections that can be abandoned, channels for what the broker may
// refuse, a publisher with confirms, and messages. It knows AMQP 0-9-1 and, with package broker, is the only one that
// knows its library; it does not know what queues and messages mean to a lock.
package transport

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/broker"
)

// CloseTimeout bounds an orderly close. After it the socket is closed, which frees the same things a little later.
const CloseTimeout = time.Second

// blockedPatience is for how long a connection that the broker has blocked is kept: the news of the alarm overtakes
// confirms (RabbitMQ 3.10.8). Nothing else is answered before the alarm is over.
const blockedPatience = 2 * time.Second

// restart is less than any broker takes to start: RabbitMQ needs 3 s and more.
const restart = 2 * time.Second

// Conn is a connection that can be abandoned at any time: no call on it outlives its socket. A Dialer makes it. Its
// methods may be called from several goroutines.
type Conn struct {
	node   broker.Node
	clock  boottime.Clock
	amqp   *amqp.Connection
	socket *broker.Socket

	user    atomic.Pointer[string] // see User
	learned func(user string)      // sets it, for later connections too
	trusts  func(user string) bool // see Trusts

	probing Probing
	prober  *Channel // for probes that are not made by confirms: these share the channel of the publisher

	cut    atomic.Bool      // abandoned; the library may not have noticed yet
	ending sync.Once        // see Abandon
	closed atomic.Bool      // the broker has confirmed Close
	done   chan struct{}    // closed once the connection is
	reason *amqp.Error      // why; valid after done; nil if we closed it cleanly
	ended  boottime.Instant // when; valid after done

	calling Mutex // held by who waits for an answer to the connection as a whole

	mu      sync.Mutex
	blocked chan struct{} // closed while the broker does not serve this connection; guarded by mu
	cutting *time.Timer   // cuts the connection while it is blocked; guarded by mu

	returns map[*Channel]<-chan amqp.Return // what comes back; guarded by mu
}

// watch starts the goroutine that closes done and follows the broker's flow control. It ends with the connection, of
// which amqp091-go tells the reason before it ends the rest.
func (c *Conn) watch() {
	closes := c.amqp.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		for {
			select {
			case blocked := <-c.socket.Blocked:
				c.flow(blocked)
			case reason, open := <-closes:
				if !open {
					c.ended = c.clock.Now()
					close(c.done)
					return
				}
				c.reason = reason
			}
		}
	}()
}

// listen returns what comes back on ch, which the channel has opened.
func (c *Conn) listen(channel *Channel, ch *amqp.Channel) <-chan amqp.Return {
	returns := ch.NotifyReturn(make(chan amqp.Return, unawaitedReturns))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returns[channel] = returns
	return returns
}

// end makes the library notice that the socket is closed, whatever it is at. It waits for somebody to take what a
// broker sends unasked: for seconds with each message that comes back, and for ever with an answer. A write that fails
// ends it; Close writes nothing where it was called before.
func (c *Conn) end() {
	c.mu.Lock()
	for _, returns := range c.returns {
		go func() { // ends with the channel
			for range returns {
			}
		}()
	}
	c.mu.Unlock()
	_ = c.amqp.UpdateSecret("", "")
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

// Blocked returns a channel that is closed while the broker, under a memory or disk alarm, does not serve this
// connection, because it has published.
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

// Node is what it is connected to.
func (c *Conn) Node() broker.Node { return c.node }

// Label names the broker for messages, without a password.
func (c *Conn) Label() string { return c.node.Label() }

// User is the user that the broker knows us by, as far as is known: see Dialer.learn.
func (c *Conn) User() string { return *c.user.Load() }

// Trusts reports whether the messages of a user count, whom the broker has validated: those of our own, and of the
// others that the lock is used by.
func (c *Conn) Trusts(user string) bool { return c.trusts(user) }

// Clock is what proofs that come over it are counted on.
func (c *Conn) Clock() boottime.Clock { return c.clock }

// Heartbeat is the negotiated one.
func (c *Conn) Heartbeat() time.Duration { return c.amqp.Config.Heartbeat }

// Secured describes the connection's TLS; nil: it has none.
func (c *Conn) Secured() *broker.Secured { return broker.Describe(c.amqp.ConnectionState()) }

// Says returns what the broker said of itself under the key (connection.start, server-properties), on one line, or "".
func (c *Conn) Says(key string) string {
	s, _ := c.amqp.Properties[key].(string)
	return broker.OneLine(s)
}

// Since reports whether the broker's version is this one or a later one.
func (c *Conn) Since(major, minor int) bool {
	var is [2]int
	n, _ := fmt.Sscanf(c.Says("version"), "%d.%d", &is[0], &is[1])
	return n == 2 && slices.Compare(is[:], []int{major, minor}) >= 0
}

// Abandon cuts the connection. The broker then frees what it owned. It does not wait.
func (c *Conn) Abandon() {
	c.cut.Store(true)
	c.socket.Cut()
	c.ending.Do(func() { go c.end() })
}

// Close ends the connection: cleanly, or by cutting it, after CloseTimeout or where the broker has blocked it. It
// reports whether the broker confirmed; a connection that had ended before needs no confirmation.
func (c *Conn) Close() (confirmed bool) {
	confirmed = !IsClosed(c.Blocked())
	if confirmed && !c.Broken() {
		answered := make(chan error, 1)
		go func() {
			c.calling.Lock()
			defer c.calling.Unlock()
			answered <- c.amqp.Close()
		}()
		select {
		case err := <-answered:
			confirmed = err == nil
		case <-time.After(CloseTimeout):
			confirmed = false
		}
		c.closed.Store(confirmed)
	}
	c.Abandon()
	select {
	case <-c.done:
	case <-time.After(CloseTimeout): // the socket is closed, whatever the library waits for
	}
	return confirmed
}

// End is Close, but waits for no answer if ctx is over.
func (c *Conn) End(ctx context.Context) {
	if ctx.Err() != nil {
		c.Abandon()
	}
	c.Close()
}

// Done is closed once the connection is.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Broken reports whether the connection is of no use any more.
func (c *Conn) Broken() bool { return c.cut.Load() || c.amqp.IsClosed() }

// Abandoned reports whether this side has cut the connection.
func (c *Conn) Abandoned() bool { return c.cut.Load() }

// Orderly reports whether the connection ended with a close that both sides know of. Valid after Done.
func (c *Conn) Orderly() bool { return c.closed.Load() || c.reason != nil && c.reason.Server }

// JustFailed reports whether the broker has ended the connection because something went wrong inside it (541), or with a
// queue that was just going (506), so that it was alive then, and so short a time ago that it cannot have been killed and
// started again since, unless this process stood still meanwhile.
func (c *Conn) JustFailed() bool {
	return IsClosed(c.done) && c.reason != nil && c.reason.Server &&
		(c.reason.Code == amqp.InternalError || c.reason.Code == amqp.ResourceError) && !c.clock.Passed(c.ended.Add(restart))
}

// Why describes the end of the connection, for messages.
func (c *Conn) Why() string {
	select {
	case <-c.done:
	case <-c.Blocked():
		return "is not served any more, because of an alarm of the broker"
	case <-time.After(CloseTimeout):
		return "was closed" // closing, but the library has not told its listeners yet
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
	return lock.Errorf(lock.ErrUnreachable, "%s: the connection to %s %s", what, c.Label(), c.Why())
}

// WaitError is the outcome of a wait for a lock that has ended with ctx, or with the connection. Where both are over,
// ctx counts: what was asked under it may have cut the connection.
func (c *Conn) WaitError(ctx context.Context, of string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("gave up waiting for %s: %w", of, ctx.Err())
	}
	return c.BrokenError("cannot wait for " + of)
}

// Sleep waits for the pause. Errors: WaitError.
func (c *Conn) Sleep(ctx context.Context, pause time.Duration, of string) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.Done():
	case <-ctx.Done():
	}
	return c.WaitError(ctx, of)
}

// UnlessBlocked runs f, which waits for an answer on the connection. Under an alarm the broker answers nothing any more
// on one that has just published: then it is cut, which frees what is left.
func (c *Conn) UnlessBlocked(f func() error) error {
	done := make(chan struct{})
	go func() {
		select {
		case <-c.Blocked():
			c.Abandon()
		case <-done:
		}
	}()
	err := f()
	close(done)
	if IsClosed(c.Blocked()) {
		c.Abandon()
		return nil
	}
	return err
}
