package management

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"berth/lock"
)

// maxBytes bounds one answer: 500 queues with names of 255 bytes need half a megabyte.
const maxBytes = 8 << 20

// client asks the management API of one broker about one virtual host.
type client struct {
	ctx            context.Context // of all requests
	secure         *tls.Config
	endpoint, host string
	vhost          string
	user, password string
}

// ask has rabbithole ask for these columns of the objects alone, "" for all: others cost the broker time, and may be of
// another type than rabbithole takes them for. Errors: those of the context, ErrUnreachable, ErrDenied, ErrUnknown.
func ask[T any](a *client, columns string, request func(*rabbithole.Client) (T, error)) (T, error) {
	below := &transport{client: a, columns: columns, next: &http.Transport{TLSClientConfig: a.secure}}
	client, err := rabbithole.NewTLSClient(a.endpoint, a.user, a.password, below)
	if err != nil {
		var none T
		return none, errors.New("the URL of the management API is none")
	}
	answer, err := request(client)
	var failed *url.Error
	switch {
	case err == nil:
	case a.ctx.Err() != nil:
		err = a.ctx.Err()
	case errors.As(err, &failed):
		err = failed.Err // without the URL, which the message has already
	default:
		err = lock.Errorf(lock.ErrUnknown, "what %s answers is not of the management API: %w; %s", a.host, err, setUp)
	}
	return answer, err
}

// transport is what rabbithole lacks: a context, a bound, and a meaning of statuses.
type transport struct {
	*client
	columns string
	next    http.RoundTripper
}

// answered is a status that says neither yes nor no. It comes with lock.ErrUnknown.
type answered int

func (a answered) Error() string { return fmt.Sprintf("\"%d %s\"", int(a), http.StatusText(int(a))) }

// RoundTrip implements http.RoundTripper. What is not an answer of the API is an error, a redirect too: it would be
// followed with the same login.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(t.ctx)
	if t.columns != "" {
		query := request.URL.Query()
		query.Set("columns", t.columns)
		request.URL.RawQuery = query.Encode()
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, lock.Errorf(lock.ErrUnreachable, "cannot reach the management API at %s: %w; %s", t.host, err, advice(err))
	}
	switch response.StatusCode {
	case http.StatusOK:
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxBytes), response.Body}
		return response, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		err = lock.Errorf(lock.ErrDenied, "the management API at %s refuses the login; the user needs the tag management, and "+
			"permissions in the virtual host", t.host)
	default:
		err = lock.Errorf(lock.ErrUnknown, "%s answers with %w; it is not the management API, or shows this user no such "+
			"virtual host; %s", t.host, answered(response.StatusCode), setUp)
	}
	response.Body.Close()
	return nil, err
}

// setUp says where the API is to be found.
const setUp = "it takes RabbitMQ's management plugin ('rabbitmq-plugins enable rabbitmq_management' on the node), " +
	"which listens on port 15672 as a rule, 15671 with TLS"

// advice says what to do about an API that was not reached.
func advice(err error) string {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return "give the certificate of that authority with --tls-ca, and an amqps:// URL as --broker"
	}
	return setUp
}
