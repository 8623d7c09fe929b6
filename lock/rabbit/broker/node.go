// Package broker is one node of a broker: its URL, the login, what it answers to those that it does not let in, and
// which of its frames are read.
// It knows nothing of what a connection is used for.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// DialTimeout bounds connecting to one node, TLS and login included. It is far more than a working network needs
// (milliseconds) and short enough to go through a few dead nodes of a cluster within one lease.
const DialTimeout = 5 * time.Second

// Node is one node that can be dialled. Parse makes it.
type Node struct {
	url     string // with the password: never shown
	uri     amqp.URI
	login   amqp.Authentication
	oldest  uint16        // version of TLS
	timeout time.Duration // for one attempt to connect
}

// URL returns what was parsed, with the password.
func (n Node) URL() string { return n.url }

// Label names the node for messages, without user and password.
func (n Node) Label() string {
	u := url.URL{Scheme: n.uri.Scheme, Host: net.JoinHostPort(n.uri.Host, strconv.Itoa(n.uri.Port))}
	if n.uri.Vhost != "/" {
		u.Path, u.RawPath = "/"+n.uri.Vhost, "/"+url.PathEscape(n.uri.Vhost)
	}
	return u.String()
}

// User is the user of the URL.
func (n Node) User() string { return n.uri.Username }

// Password is the password of the URL: never shown.
func (n Node) Password() string { return n.uri.Password }

// Login is the mechanism by which berth logs in: PLAIN or EXTERNAL.
func (n Node) Login() string { return n.login.Mechanism() }

// Anonymous reports whether the URL does not say which user it is: the broker takes that from a certificate, or from a
// token.
func (n Node) Anonymous() bool { return n.User() == "" || n.Login() == "EXTERNAL" }

// Vhost is the virtual host of the URL.
func (n Node) Vhost() string { return n.uri.Vhost }

// Parse reads one URL. What can be wrong with one is said where configurations are read. Errors of the URL parsers
// quote their input, password and all, so they are never passed on.
func Parse(raw string) (Node, error) {
	uri, err := amqp.ParseURI(raw)
	if err != nil {
		return Node{}, errors.New("not usable; write amqp://user:password@host:port/vhost or amqps://..., " +
			"percent-encode special characters, write spaces as %20, and check the query parameters")
	}
	n := Node{url: raw, uri: uri, timeout: DialTimeout}
	if own := time.Duration(uri.ConnectionTimeout) * time.Millisecond; own > 0 {
		n.timeout = min(n.timeout, own)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return Node{}, errors.New("not usable; it is no URL")
	}
	query := u.Query()
	switch mechanism := query.Get("auth_mechanism"); mechanism {
	case "", "plain":
		n.login = uri.PlainAuth()
	case "external":
		n.login = &amqp.ExternalAuth{}
	default:
		return Node{}, fmt.Errorf("auth_mechanism %q is not known; use plain or external", mechanism)
	}
	var known bool
	if n.oldest, known = versions[query.Get("tls_min_version")]; !known {
		return Node{}, errors.New("tls_min_version is not known; use 1.2 or 1.3")
	}
	return n, nil
}

// login wraps a mechanism to do what amqp091-go has no setting for.
type login struct {
	amqp.Authentication

	properties amqp.Table // the very table that goes into connection.start-ok
}

// Response is called after amqp091-go has put its own capabilities into the table and before it is serialised. RabbitMQ
// tells a client that its login was refused only if that client announces authentication_failure_close; otherwise it
// drops the connection, which looks like a network fault (https://www.rabbitmq.com/docs/auth-notification).
func (l *login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}

// Connect makes the connection below TLS to an address, which is a host and a port. nil is TCP.
type Connect func(ctx context.Context, address string) (net.Conn, error)

func overTCP(ctx context.Context, address string) (net.Conn, error) {
	var plain net.Dialer
	return plain.DialContext(ctx, "tcp", address)
}

// connect makes the connection below TLS.
func (n Node) connect(ctx context.Context, connect Connect) (*Socket, error) {
	if connect == nil {
		connect = overTCP
	}
	raw, err := connect(ctx, net.JoinHostPort(n.uri.Host, strconv.Itoa(n.uri.Port)))
	if err != nil {
		return nil, err
	}
	return newSocket(raw), nil
}

// Dial connects and logs in. name is this process's in the broker's list of connections.
//
// Errors: lock.ErrDenied, lock.ErrUnreachable, that of ctx.
func (n Node) Dial(ctx context.Context, name string, heartbeat time.Duration, connect Connect) (*amqp.Connection, *Socket,
	error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	properties := amqp.NewConnectionProperties()
	properties["connection_name"] = name
	properties["product"] = "berth"
	secure, own, err := n.certificates()
	if err != nil {
		return nil, nil, lock.Errorf(lock.ErrUnreachable, "%s", OneLine(err.Error()))
	}
	stop := func() bool { return true }
	greeting := &greeting{}
	var opened *amqp.Connection
	var spoken *frames
	socket, err := n.connect(ctx, connect)
	if err == nil {
		// The handshakes know no context: closing the socket ends them.
		stop = context.AfterFunc(ctx, func() { socket.Conn.Close() })
		greeting.Conn = socket
		spoken, err = speak(ctx, greeting, socket, secure)
	}
	if err == nil {
		opened, err = amqp.Open(spoken, amqp.Config{SASL: []amqp.Authentication{&login{n.login, properties}},
			Vhost: n.uri.Vhost, Heartbeat: heartbeat, ChannelMax: n.uri.ChannelMax, FrameSize: frameMax, Locale: "en_US",
			Properties: properties})
	}
	if stop() && err == nil {
		return opened, socket, nil
	}
	if socket != nil {
		socket.Cut()
	}
	if opened != nil {
		_ = opened.Close() // a server that said too much has its goroutines wait for somebody to listen
	}
	_, asked := properties["capabilities"] // amqp091-go adds them to answer connection.start
	if asked && spoken.breach.Load() != nil {
		err = spoken.breach.Load()
	}
	return nil, nil, refused(outer, ctx, err, n, failure{own, greeting, asked, socket != nil})
}
