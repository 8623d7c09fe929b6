package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// refused says why a node could not be used. asked: it spoke AMQP 0-9-1; connected: something accepted the connection.
func refused(outer, ctx context.Context, err error, n Node, asked, connected bool) error {
	unreachable := func(format string, args ...any) error { return lock.Errorf(lock.ErrUnreachable, format, args...) }
	var answer *amqp.Error
	fromBroker := errors.As(err, &answer) && answer.Server
	switch {
	case outer.Err() != nil:
		return fmt.Errorf("gave up connecting: %w", outer.Err())
	case ctx.Err() != nil && connected && !asked:
		return unreachable("connected, but no AMQP 0-9-1 broker answered within %s; check host and port, and "+
			"whether the broker is slow", n.timeout)
	case ctx.Err() != nil:
		return unreachable("no connection within %s; check host, port and network", n.timeout)
	case !connected:
		return unreachable("%s; does the broker run, and does --broker name it?", OneLine(err.Error()))
	case errors.Is(err, amqp.ErrSASL):
		return lock.Errorf(lock.ErrDenied,
			"the broker offers none of our login mechanisms; set auth_mechanism in the URL")
	case fromBroker && answer.Code == amqp.AccessRefused:
		return lock.Errorf(lock.ErrDenied, "login as %q failed; check user and password (%s)", n.uri.Username,
			OneLine(answer.Reason))
	case fromBroker && answer.Code == amqp.NotAllowed:
		return lock.Errorf(lock.ErrDenied,
			"vhost %q cannot be used; create it, or permit user %q to use it, or raise its limits (%s)",
			n.uri.Vhost, n.uri.Username, OneLine(answer.Reason))
	case fromBroker:
		return unreachable("the broker ended the login with %d %s; try again", answer.Code, OneLine(answer.Reason))
	case asked:
		return unreachable("the broker dropped the connection during the login; try again, see its log")
	case answer == nil && err != nil && !hungUp(err):
		// TLS, or a certificate file that cannot be read.
		return unreachable("%s", OneLine(err.Error()))
	default:
		return unreachable("no AMQP 0-9-1 broker answered there; check host and port, and amqp:// or amqps://")
	}
}

// hungUp reports whether the socket ended before the handshake did. Whether a server that speaks another protocol is
// noticed in reading its answer or in writing to the socket that was closed because of it, is a matter of luck. An
// alert of TLS is a net.OpError too, of an operation of its own.
func hungUp(err error) bool {
	var socket *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &socket) && (socket.Op == "read" || socket.Op == "write")
}

// OneLine keeps foreign text from breaking a message into lines.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Summary makes one error of one line out of what the nodes answered. It is the worst of lock.ErrDenied,
// lock.ErrUnsafe and lock.ErrUnreachable that is among it, and that of ctx.
func Summary(ctx context.Context, failures []error) error {
	all, kind := errors.Join(failures...), lock.ErrUnreachable
	for _, worse := range []error{lock.ErrUnsafe, lock.ErrDenied} {
		if errors.Is(all, worse) {
			kind = worse
		}
	}
	err := lock.Errorf(kind, "cannot connect to the broker: %s", strings.ReplaceAll(all.Error(), "\n", "; "))
	if ctx.Err() != nil {
		err = lock.Errorf(ctx.Err(), "%w", err)
	}
	return err
}
