package rabbit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// dialTimeout bounds connecting to one URL, TLS and login included. It is far
// more than a working network needs (milliseconds) and short enough to go
// through a few dead nodes of a cluster within one lease.
const dialTimeout = 5 * time.Second

// dialer makes the connections of one contender or administrator.
type dialer struct {
	brokers   []broker
	heartbeat time.Duration
	leaseless bool // no lease is counted from the heartbeat: less of it will do
	who       string
	log       hclog.Logger

	mu   sync.Mutex
	next int // where to begin; the node that worked last, or the one after it; guarded by mu
}

// begin returns the node to begin with.
func (d *dialer) begin() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

// moveOn makes the next dial begin with another node than n.
func (d *dialer) moveOn(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == n {
		d.next = (n + 1) % len(d.brokers)
	}
}

// prefer makes the next dial begin with node n.
func (d *dialer) prefer(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = n
}

// dial connects to the first node that lets us, beginning with d.next. If none
// does, the error has a refusal (lock.ErrDenied, lock.ErrUnsafe) in preference
// to lock.ErrUnreachable, because it needs somebody to change something.
func (d *dialer) dial(ctx context.Context, role string) (*conn, error) {
	var failures []error
	begin := d.begin()
	for i := range d.brokers {
		n := (begin + i) % len(d.brokers)
		b := d.brokers[n]
		c, err := d.dialOne(ctx, b, role)
		if err == nil {
			d.prefer(n)
			return c, nil
		}
		d.moveOn(n)
		d.log.Debug("cannot connect", "role", role, "broker", b.label, "error", err)
		failures = append(failures, fmt.Errorf("%s: %w", b.label, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, summary(ctx, failures)
}

// summary makes one error of one line out of what the nodes answered.
func summary(ctx context.Context, failures []error) error {
	var texts []string
	kinds := map[error]bool{}
	for _, err := range failures {
		texts = append(texts, err.Error())
		for _, kind := range []error{lock.ErrDenied, lock.ErrUnsafe} {
			kinds[kind] = kinds[kind] || errors.Is(err, kind)
		}
	}
	err := &dialError{text: "cannot connect to the broker: " + strings.Join(texts, "; ")}
	switch {
	case kinds[lock.ErrDenied]:
		err.is = append(err.is, lock.ErrDenied)
	case kinds[lock.ErrUnsafe]:
		err.is = append(err.is, lock.ErrUnsafe)
	default:
		err.is = append(err.is, lock.ErrUnreachable)
	}
	if ctx.Err() != nil {
		err.is = append(err.is, ctx.Err())
	}
	return err
}

// dialError has a text that already contains the texts of what it wraps.
type dialError struct {
	text string
	is   []error
}

func (e *dialError) Error() string   { return e.text }
func (e *dialError) Unwrap() []error { return e.is }

func (d *dialer) dialOne(ctx context.Context, b broker, role string) (*conn, error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	asked := false
	properties := amqp.NewConnectionProperties()
	properties["connection_name"] = d.who + " (" + role + ")"
	properties["product"] = "berth"
	c := &conn{label: b.label, user: b.uri.Username, done: make(chan struct{})}
	stop := func() bool { return true }
	opened, err := amqp.DialConfig(b.url, amqp.Config{
		SASL:       logins(b.uri, properties, &asked),
		Heartbeat:  d.heartbeat,
		Properties: properties,
		Dial: func(network, addr string) (net.Conn, error) {
			var plain net.Dialer
			raw, err := plain.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			// The handshake knows no context: closing the socket ends it.
			c.raw, c.out = raw, &batching{Conn: raw}
			stop = context.AfterFunc(ctx, func() { raw.Close() })
			return c.out, nil
		},
	})
	if !stop() || err != nil {
		c.abandon()
		return nil, refused(outer, ctx, err, b, asked, c.raw != nil)
	}
	c.amqp = opened
	c.watch()
	if got := opened.Config.Heartbeat; got < d.heartbeat && !d.leaseless {
		c.abandon()
		return nil, lock.Errorf(lock.ErrUnsafe, "the broker allows a heartbeat of %s only and %s was asked for; lower --heartbeat or raise the broker's", got, d.heartbeat)
	}
	return c, nil
}

// refused says why a node could not be used. asked: it spoke AMQP 0-9-1;
// connected: something accepted the connection.
func refused(outer, ctx context.Context, err error, b broker, asked, connected bool) error {
	var answer *amqp.Error
	switch {
	case outer.Err() != nil:
		return fmt.Errorf("gave up connecting: %w", outer.Err())
	case ctx.Err() != nil && connected && !asked:
		return lock.Errorf(lock.ErrUnreachable, "connected, but no AMQP 0-9-1 broker answered within %s; check host and port, and whether the broker is slow", b.timeout)
	case ctx.Err() != nil:
		return lock.Errorf(lock.ErrUnreachable, "no connection within %s; check host, port and network", b.timeout)
	case !connected:
		return lock.Errorf(lock.ErrUnreachable, "%s; does the broker run, and does --broker name it?", oneLine(err.Error()))
	case errors.Is(err, amqp.ErrSASL):
		return lock.Errorf(lock.ErrDenied, "the broker offers none of our login mechanisms; set auth_mechanism in the URL")
	case errors.As(err, &answer) && answer.Server:
		return refusedByBroker(answer, b)
	case asked:
		return lock.Errorf(lock.ErrUnreachable, "the broker dropped the connection during the login; try again, see its log")
	case answer == nil && err != nil && !hungUp(err):
		// TLS, or a certificate file that cannot be read.
		return lock.Errorf(lock.ErrUnreachable, "%s", oneLine(err.Error()))
	default:
		return lock.Errorf(lock.ErrUnreachable, "no AMQP 0-9-1 broker answered there; check host and port, and amqp:// or amqps://")
	}
}

// hungUp reports whether the socket ended before the handshake did. Whether a
// server that speaks another protocol is noticed in reading its answer or in
// writing to the socket that was closed because of it, is a matter of luck. An
// alert of TLS is a net.OpError too, of an operation of its own.
func hungUp(err error) bool {
	var socket *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &socket) && (socket.Op == "read" || socket.Op == "write")
}

func refusedByBroker(answer *amqp.Error, b broker) error {
	reason := oneLine(answer.Reason)
	switch answer.Code {
	case amqp.AccessRefused:
		return lock.Errorf(lock.ErrDenied, "login as %q failed; check user and password (%s)", b.uri.Username, reason)
	case amqp.NotAllowed:
		return lock.Errorf(lock.ErrDenied, "vhost %q cannot be used; create it, or permit user %q to use it, or raise its limits (%s)", b.uri.Vhost, b.uri.Username, reason)
	default:
		return lock.Errorf(lock.ErrUnreachable, "the broker ended the login with %d %s; try again", answer.Code, reason)
	}
}

// oneLine keeps foreign text from breaking a message into lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
