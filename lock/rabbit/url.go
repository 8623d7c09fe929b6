package rabbit

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// broker is one node that can be dialled.
type broker struct {
	url   string // with the password: never shown
	uri   amqp.URI
	label string // without the password: for messages

	timeout time.Duration // for one attempt to connect
}

// parseBroker checks one URL. Errors of the URL parsers quote their input,
// password and all, so they are never passed on.
func parseBroker(raw string) (broker, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return broker{}, errors.New("not a URL; write amqp://user:password@host:port/vhost and percent-encode special characters of user and password")
	}
	if u.Scheme != "amqp" && u.Scheme != "amqps" {
		return broker{}, fmt.Errorf("scheme %q is not known; use amqp:// or amqps://", u.Scheme)
	}
	if u.Hostname() == "" {
		return broker{}, fmt.Errorf("%s:// has no host; write %s://user:password@host:port/vhost", u.Scheme, u.Scheme)
	}
	if strings.Contains(u.EscapedPath(), "@") {
		// What was meant for a password would be shown as a part of the vhost.
		return broker{}, errors.New("an @ follows the host; write / as %2F in user and password, and @ as %40 in a vhost")
	}
	if u.Query().Has("heartbeat") {
		return broker{}, errors.New("the heartbeat is set in the URL; remove heartbeat= from it and use --heartbeat")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return broker{}, fmt.Errorf("port %s is not between 1 and 65535; correct it", port)
		}
	}
	uri, err := amqp.ParseURI(raw)
	if err != nil {
		return broker{}, errors.New("not usable; check the query parameters and write spaces as %20")
	}
	for _, mechanism := range uri.AuthMechanism {
		if _, ok := mechanisms(uri)[strings.ToLower(mechanism)]; !ok {
			return broker{}, fmt.Errorf("auth_mechanism %q is not known; use plain, amqplain or external", mechanism)
		}
	}
	timeout := dialTimeout
	if own := time.Duration(uri.ConnectionTimeout) * time.Millisecond; own > 0 {
		timeout = min(timeout, own)
	}
	return broker{url: raw, uri: uri, label: label(uri), timeout: timeout}, nil
}

func label(uri amqp.URI) string {
	u := url.URL{Scheme: uri.Scheme, Host: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))}
	if uri.Vhost != "/" {
		u.Path, u.RawPath = "/"+uri.Vhost, "/"+url.PathEscape(uri.Vhost)
	}
	return u.String()
}

// mechanisms are the ways to log in that a URL may name.
func mechanisms(uri amqp.URI) map[string]amqp.Authentication {
	return map[string]amqp.Authentication{
		"plain":    uri.PlainAuth(),
		"amqplain": uri.AMQPlainAuth(),
		"external": &amqp.ExternalAuth{},
	}
}
