package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// failure is what is known of an attempt to connect besides its error.
type failure struct {
	own       *identity
	greeting  *greeting
	asked     bool // it spoke AMQP 0-9-1
	connected bool // something accepted the connection
}

// refused says why a node could not be used.
func refused(outer, ctx context.Context, err error, n Node, f failure) error {
	unreachable := func(format string, args ...any) error { return lock.Errorf(lock.ErrUnreachable, format, args...) }
	denied := func(format string, args ...any) error { return lock.Errorf(lock.ErrDenied, format, args...) }
	var answer *amqp.Error
	var broken *breach
	fromBroker := errors.As(err, &answer) && answer.Server
	secure := n.uri.Scheme == "amqps"
	switch {
	case outer.Err() != nil:
		return fmt.Errorf("gave up connecting: %w", outer.Err())
	case ctx.Err() != nil && f.connected && !f.asked:
		return unreachable("connected, but no AMQP 0-9-1 broker answered within %s; check host and port, and "+
			"whether the broker is slow", n.timeout)
	case ctx.Err() != nil:
		return unreachable("no connection within %s; check host, port and network", n.timeout)
	case !f.connected:
		return unreachable("%s; does the broker run, and does --broker name it?", OneLine(err.Error()))
	case errors.As(err, &broken):
		return unreachable("%s; is it a RabbitMQ that listens there?", broken.Error())
	case errors.Is(err, amqp.ErrSASL):
		return denied("%s", n.notOffered(f.own))
	case fromBroker && answer.Code == amqp.AccessRefused:
		return denied("%s (%s)", n.notLetIn(f.own), OneLine(answer.Reason))
	case fromBroker && answer.Code == amqp.NotAllowed:
		return denied("vhost %q cannot be used; create it, or permit %s to use it, or raise its limits (%s)", n.uri.Vhost,
			n.whom(), OneLine(answer.Reason))
	case fromBroker:
		return unreachable("the broker ended the login with %d %s; try again", answer.Code, OneLine(answer.Reason))
	case f.asked:
		return unreachable("the broker dropped the connection during the login; try again, see its log")
	case !secure && f.greeting.alerts():
		return unreachable("that port is one for TLS; write amqps:// in place of amqp://, or the port without TLS, 5672 as " +
			"a rule")
	case secure && alert(err) != "":
		return unreachable("the server ended TLS: %s; %s", alert(err), n.aboutAlert(alert(err), f.own))
	case answer == nil && err != nil && !hungUp(err):
		return unreachable("%s", n.aboutServer(err))
	case secure && f.own.asked.Load(): // the reset of the socket can overtake the alert
		return unreachable("the server closed the connection once it had asked for a client certificate; %s",
			n.aboutClient(f.own))
	case secure:
		return unreachable("no AMQP 0-9-1 broker answered there; check host, port and amqps://; %s", n.aboutClient(f.own))
	default:
		return unreachable("no AMQP 0-9-1 broker answered there; check host and port, and amqp:// or amqps://")
	}
}

// alert returns the alert with which the server has ended TLS, "" if it has not. With TLS 1.3 the handshake is over by
// then, and amqp091-go makes a text of the error.
func alert(err error) string {
	if err == nil {
		return ""
	}
	_, text, _ := strings.Cut(OneLine(err.Error()), "remote error: tls: ")
	return strings.TrimSuffix(text, `"`)
}

// hungUp reports whether the socket ended before the handshake did. Whether a server that speaks another protocol is
// noticed in reading its answer or in writing to the socket that was closed because of it, is a matter of luck; a
// write after TLS was closed says net.ErrClosed. An alert of TLS is a net.OpError too, of an operation of its own.
func hungUp(err error) bool {
	var socket *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &socket) && (socket.Op == "read" || socket.Op == "write")
}

// OneLine keeps foreign text from breaking a message into lines, or doing something to a terminal: what cannot be
// printed is escaped.
func OneLine(s string) string {
	var b strings.Builder
	for s = strings.Join(strings.Fields(s), " "); s != ""; {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !unicode.IsPrint(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

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
