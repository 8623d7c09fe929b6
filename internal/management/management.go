// Package management asks the HTTP API of RabbitMQ's management plugin what AMQP does not show: which locks a virtual
// host has, and of one lock which policies harm it, on which nodes it depends, and who else may write to its queues.
//
//	access := management.Access{URL: "http://rabbit:15672", Broker: brokerURL}
//	ids, err := management.Locks(ctx, access)
//	report, err := management.Inspect(ctx, access, management.Lock{ID: ids[0]})
//
// Locks goes by names and arguments of queues, and knows nothing of what is in them. On classic queues a semaphore of one
// slot and a persistent mutex look the same, and a mutex is there only while a berth holds it. On quorum queues a
// semaphore and a token semaphore are the same. Inspect judges policies by patterns and keys, as the broker does, also
// for queues that are not there yet. It knows no users of other directories than the broker's own.
//
// Package rabbithole knows the API's paths and objects. It knows no contexts, bounds no answer, follows redirects with
// the login, and gives a refused login as a text without a status: package management is the transport below it, and
// does that there.
package management

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"berth/internal/pemfile"
	"berth/lock"
)

// Access says where the API is, and who asks.
type Access struct {
	URL    string // http://HOST:15672 or https://, perhaps with user and password
	Broker string // an amqp:// URL: its virtual host is asked about, with its login and authorities where URL has none
	NAL    bool   // queues are named N-A-L and not N-L-A
}

// String names what is asked about.
func (a Access) String() string {
	at, err := url.Parse(a.URL)
	if err != nil {
		return "the broker"
	}
	broker, err := url.Parse(a.Broker)
	if err != nil {
		return at.Host
	}
	vhost, err := virtualHost(broker)
	if err != nil {
		return at.Host
	}
	return fmt.Sprintf("the virtual host %q of %s", vhost, at.Host)
}

// InClear warns of a login that leaves this host without TLS, "" if none does.
func (a Access) InClear() string {
	at, err := url.Parse(a.URL)
	if err != nil || at.Scheme != "http" || at.Hostname() == "localhost" || net.ParseIP(at.Hostname()).IsLoopback() {
		return ""
	}
	return fmt.Sprintf("the login goes over the network to %s without TLS; use https://, port 15671 as a rule, or keep others "+
		"off that network", at.Host)
}

// open reads the URLs. It does no I/O but that of files. No error repeats a URL, which may have a password.
func (a Access) open(ctx context.Context) (*client, error) {
	at, err := url.Parse(a.URL)
	if err != nil {
		return nil, errors.New("the URL of the management API is none")
	}
	broker, err := url.Parse(a.Broker)
	if err != nil {
		return nil, errors.New("the broker's URL is none")
	}
	vhost, err := virtualHost(broker)
	if err != nil {
		return nil, err
	}
	secure, err := secure(broker)
	if err != nil {
		return nil, err
	}
	login := cmp.Or(at.User, broker.User, url.UserPassword("guest", "guest")) // as for a broker's URL without a login
	at.User, at.RawQuery, at.Fragment = nil, "", ""
	password, _ := login.Password()
	return &client{ctx: ctx, secure: secure, endpoint: strings.TrimRight(at.String(), "/"), host: at.Host, vhost: vhost,
		user: login.Username(), password: password}, nil
}

// secure is how to speak TLS with the API: as with the broker.
func secure(broker *url.URL) (cfg *tls.Config, err error) {
	cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	if file := broker.Query().Get("cacertfile"); file != "" {
		if cfg.RootCAs, err = pemfile.Pool(file); err != nil {
			return nil, lock.Errorf(lock.ErrUnreachable, "%w", err)
		}
	}
	return cfg, nil
}

// virtualHost is the one that a broker's URL names.
func virtualHost(broker *url.URL) (string, error) {
	vhost := strings.TrimPrefix(broker.EscapedPath(), "/")
	if vhost == "" {
		return "/", nil
	}
	vhost, err := url.PathUnescape(vhost)
	if err != nil {
		return "", errors.New("the broker's URL has a virtual host that cannot be read")
	}
	return vhost, nil
}
