package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

const (
	// operationTimeout bounds one operation of the broker. The slowest that
	// belongs to normal work, an exclusive declare, takes milliseconds; a
	// cluster that has lost a node may not answer for half a minute, and then
	// it is better to turn to another node.
	operationTimeout = 5 * time.Second

	// closeTimeout bounds an orderly close. After it the socket is closed,
	// which frees the same things a little later.
	closeTimeout = time.Second
)

// What a broker answers to an operation on a queue, besides yes.
var (
	errNoQueue = errors.New("no such queue")               // 404, and certain
	errTaken   = errors.New("another connection owns it")  // 405; of a claim also: exclusive to nobody
	errDiffers = errors.New("exists with other arguments") // 406
	errUnfit   = errors.New("the broker does not take it") // 406 for another reason, such as a limit on queues: nothing is known of the queue
)

// conn is a connection that can be abandoned at any time: no call on it outlives
// its socket.
type conn struct {
	amqp  *amqp.Connection
	raw   net.Conn  // below TLS
	out   *batching // raw, for writing
	label string
	user  string // as the broker knows us

	cut    atomic.Bool   // abandoned; the library may not have noticed yet
	closed atomic.Bool   // close was confirmed
	done   chan struct{} // closed once the connection is
	reason *amqp.Error   // why; valid after done; nil if closed in order by us
}

// watch starts the goroutine that closes done. It ends with the connection.
func (c *conn) watch() {
	closes := c.amqp.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		defer close(c.done)
		for reason := range closes {
			c.reason = reason
		}
	}()
}

// abandon cuts the connection. The broker then frees what it owned.
func (c *conn) abandon() {
	c.cut.Store(true)
	if c.raw != nil {
		// Without lingering: what is still in our buffers, a claim perhaps, is
		// not wanted any more.
		if tcp, ok := c.raw.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.raw.Close()
	}
}

// close ends the connection in order, or cuts it after closeTimeout. It reports
// whether the broker confirmed.
func (c *conn) close() bool {
	stop := time.AfterFunc(closeTimeout, c.abandon)
	defer stop.Stop()
	err := c.amqp.Close()
	c.closed.Store(err == nil)
	c.abandon()
	<-c.done
	return err == nil
}

func (c *conn) broken() bool { return c.cut.Load() || c.amqp.IsClosed() }

// orderly reports whether the connection ended with a close that both sides
// know of. Valid after done.
func (c *conn) orderly() bool { return c.closed.Load() || c.reason != nil && c.reason.Server }

// why describes the end of the connection, for messages.
func (c *conn) why() string {
	select {
	case <-c.done:
	case <-time.After(closeTimeout):
		// Closing, but the library has not told its listeners yet.
		return "was closed"
	}
	switch {
	case c.reason == nil:
		return "was closed by us"
	case c.reason.Server:
		return fmt.Sprintf("was closed by the broker: %d %s", c.reason.Code, oneLine(c.reason.Reason))
	default:
		return "broke: " + oneLine(c.reason.Reason)
	}
}

// brokenError is the outcome of everything that is asked of a closed connection.
func (c *conn) brokenError(what string) error {
	return lock.Errorf(lock.ErrUnreachable, "%s: the connection to %s %s", what, c.label, c.why())
}

// op is one operation, described for messages.
type op struct {
	verb       string // "declare"
	queue      string // empty if it is about no single queue
	permission string // what the operation needs: "configure permission on it"
}

// noQueue is how a broker says of a queue that it does not exist. A 404 can also
// say that the queue's node is down, which proves nothing.
const noQueue = "NOT_FOUND - no queue "

// names reports whether the reason of a 404 is that this operation's queue does not
// exist. Whoever named another queue may have put these words into its name. Of a
// reason longer than a short string of AMQP, RabbitMQ sends 252 bytes and three dots
// (amqp_exception_explanation in rabbit_binary_generator.erl).
func (o op) names(reason string) bool {
	text := oneLine(noQueue + "'" + o.queue + "' in vhost ")
	begin, cut := strings.CutSuffix(reason, "...")
	return strings.HasPrefix(reason, text) || cut && len(begin) > 240 && strings.HasPrefix(text, begin)
}

func (o op) String() string {
	if o.queue == "" {
		return "cannot " + o.verb
	}
	return fmt.Sprintf("cannot %s queue %q", o.verb, o.queue)
}

// do runs f, which makes calls on the connection, for as long as ctx and
// operationTimeout allow. When they end it, the connection is abandoned: what f
// may have obtained dies with it.
func (c *conn) do(ctx context.Context, o op, f func() error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", o, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	stop := context.AfterFunc(bounded, c.abandon)
	err := f()
	if stop() {
		return c.explain(o, err)
	}
	c.abandon() // it may be only about to run
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: gave up waiting for the broker: %w", o, ctx.Err())
	default:
		return lock.Errorf(lock.ErrUnreachable, "%s: no answer from %s within %s", o, c.label, operationTimeout)
	}
}

// explain turns what amqp091-go returned into one of our outcomes.
func (c *conn) explain(o op, err error) error {
	if err == nil {
		return nil
	}
	if c.broken() {
		return c.brokenError(o.String())
	}
	var answer *amqp.Error
	if !errors.As(err, &answer) {
		return lock.Errorf(lock.ErrUnknown, "%s: %s", o, oneLine(err.Error()))
	}
	reason := oneLine(answer.Reason)
	switch {
	case answer.Code == amqp.NotFound && o.names(reason):
		return fmt.Errorf("%s: %w", o, errNoQueue)
	case answer.Code == amqp.NotFound && strings.HasPrefix(reason, noQueue):
		// Something that was asked on the channel before and not waited for.
		return lock.Errorf(lock.ErrUnknown, "%s: the broker closed the channel because of another queue (%s)", o, reason)
	case answer.Code == amqp.ResourceLocked:
		return fmt.Errorf("%s: %w", o, errTaken)
	case answer.Code == amqp.PreconditionFailed && strings.HasPrefix(reason, "PRECONDITION_FAILED - inequivalent arg "):
		return fmt.Errorf("%s: %w (%s)", o, errDiffers, reason)
	case answer.Code == amqp.PreconditionFailed:
		return lock.Errorf(lock.ErrUnknown, "%s: %w (%s)", o, errUnfit, reason)
	case answer.Code == amqp.AccessRefused:
		return lock.Errorf(lock.ErrDenied, "%s: grant the user the %s (%s)", o, o.permission, reason)
	default:
		return lock.Errorf(lock.ErrUnknown, "%s: %d %s", o, answer.Code, reason)
	}
}
