package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

// refused says why a node could not be used. asked: it spoke AMQP 0-9-1; connected: something accepted the connection.
func refused(outer, ctx context.Context, err error, n Node, asked, connected bool) error {
	unreachable := func(format string, args ...any) error { return lock.Errorf(lock.ErrUnreachable, format, args...) }
	var answer *amqp.Error
	var broken *breach
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
	case errors.As(err, &broken):
		return unreachable("%s; is it a RabbitMQ that listens there?", broken.Error())
	case errors.Is(err, amqp.ErrSASL):
		return lock.Errorf(lock.ErrDenied,
			"the broker offers none of our login mechanisms; set auth_mechanism in the URL")
	case fromBroker && answer.Code == amqp.AccessRefused && n.byCertificate():
		return lock.Errorf(lock.ErrDenied, "login with the certificate failed; check certfile, and that the broker has the "+
			"user that it takes from that (%s)", OneLine(answer.Reason))
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
	case alert(err) != "":
		return unreachable("the server ended TLS: %s; %s", alert(err), n.ownCertificate())
	case answer == nil && err != nil && !hungUp(err):
		// TLS, or a certificate file that cannot be read.
		return unreachable("%s%s", OneLine(err.Error()), aboutServer(err))
	case n.uri.Scheme == "amqps": // the reset of the socket can overtake the alert
		return unreachable("no AMQP 0-9-1 broker answered there; check host, port and amqps://; %s", n.ownCertificate())
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

// ownCertificate says what to do about a server that may not like the client's certificate.
func (n Node) ownCertificate() string {
	if n.uri.CertFile == "" {
		return "if it asks for a client certificate, give certfile and keyfile in the URL"
	}
	return "does it accept the certificate in certfile?"
}

// aboutServer says what to do about a server's certificate, or one that has none; "" if that is not what is wrong.
func aboutServer(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "; give the certificate of that authority as cacertfile in the URL"
	case errors.As(err, &name):
		return "; use a name that the certificate has, as host or as server_name_indication"
	case errors.As(err, &noTLS):
		return "; check the port, and amqp:// or amqps://"
	}
	return ""
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
