// Package management lists the locks of a virtual host, by the HTTP API of RabbitMQ's management plugin: AMQP has no
// way to list queues.
//
//	ids, err := management.Locks(ctx, management.Access{URL: "http://rabbit:15672", Broker: brokerURL})
//
// It goes by names and arguments of queues, and knows nothing of what is in them. On classic queues a semaphore of one
// slot and a persistent mutex look the same, and a mutex is there only while a berth holds it. On quorum queues a
// semaphore and a token semaphore are the same.
package management

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"berth/internal/pemfile"
	"berth/lock"
)

const (
	// pageSize is the most that RabbitMQ gives at once.
	pageSize = 500
	// maxPages bounds what is asked for: far more queues than a node can have.
	maxPages = 2000
	// maxBytes bounds one page: 500 queues with names of 255 bytes need half a megabyte.
	maxBytes = 8 << 20
)

// Access says where the API is, and who asks.
type Access struct {
	URL    string // http://HOST:15672 or https://, perhaps with user and password
	Broker string // an amqp:// URL: its virtual host is listed, with its login and authorities where URL has none
	NAL    bool   // queues are named N-A-L and not N-L-A
}

// Locks returns the locks that are there: semaphores with slot 1, and mutexes that somebody holds. Errors:
// ErrUnreachable, ErrDenied, ErrUnknown.
func Locks(ctx context.Context, access Access) ([]lock.ID, error) {
	secure, err := access.secure()
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: secure},
		// It would be asked with the same login.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	request, err := access.request(ctx)
	if err != nil {
		return nil, err
	}
	found := newQueues(access.NAL)
	for number := 1; number <= maxPages; number++ {
		query := url.Values{"page": {fmt.Sprint(number)}, "page_size": {fmt.Sprint(pageSize)},
			"columns": {"name,arguments"}}
		request.URL.RawQuery = query.Encode()
		p, err := get(client, request)
		if err != nil {
			return nil, err
		}
		found.add(p.Items)
		if number >= p.PageCount {
			return found.locks(), nil
		}
	}
	return nil, lock.Errorf(lock.ErrUnknown, "the management API lists more queues than %d", maxPages*pageSize)
}

// secure is how to speak TLS with the API: as with the broker.
func (a Access) secure() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	broker, err := url.Parse(a.Broker)
	if err != nil {
		return nil, errors.New("the broker's URL is none")
	}
	if file := broker.Query().Get("cacertfile"); file != "" {
		if cfg.RootCAs, err = pemfile.Pool(file); err != nil {
			return nil, lock.Errorf(lock.ErrUnreachable, "%w", err)
		}
	}
	return cfg, nil
}

// String names what is listed.
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

// request is for the queues of the virtual host.
func (a Access) request(ctx context.Context) (*http.Request, error) {
	at, err := url.Parse(a.URL)
	if err != nil {
		return nil, errors.New("the URL of the management API is none") // the error would repeat its password
	}
	broker, err := url.Parse(a.Broker)
	if err != nil {
		return nil, errors.New("the broker's URL is none")
	}
	login := at.User
	if login == nil {
		login = broker.User
	}
	at.User = nil
	vhost, err := virtualHost(broker)
	if err != nil {
		return nil, err
	}
	at = at.JoinPath("api", "queues", url.PathEscape(vhost))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, errors.New("the URL of the management API is none")
	}
	user, password := "guest", "guest" // as for a broker's URL without a login
	if login != nil {
		user = login.Username()
		password, _ = login.Password()
	}
	request.SetBasicAuth(user, password)
	return request, nil
}

// page is what the API answers.
type page struct {
	PageCount int     `json:"page_count"`
	Items     []queue `json:"items"`
}

type queue struct {
	Name      string `json:"name"`
	Arguments struct {
		MaxLength *int   `json:"x-max-length"`
		Overflow  string `json:"x-overflow"`
	} `json:"arguments"`
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

// cause is an error of a request without the URL, which the message has already.
func cause(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func get(client *http.Client, request *http.Request) (p page, err error) {
	response, err := client.Do(request)
	if err != nil {
		if ctx := request.Context(); ctx.Err() != nil {
			return p, ctx.Err()
		}
		return p, lock.Errorf(lock.ErrUnreachable, "cannot reach the management API at %s: %w; %s", request.URL.Host,
			cause(err), advice(err))
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return p, lock.Errorf(lock.ErrDenied, "the management API at %s refuses the login; the user needs the tag "+
			"management, and permissions in the virtual host", request.URL.Host)
	default:
		return p, lock.Errorf(lock.ErrUnknown, "%s answers with %q; it is not the management API, or has no such "+
			"virtual host; %s", request.URL.Host, response.Status, setUp)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBytes)).Decode(&p); err != nil {
		return p, lock.Errorf(lock.ErrUnknown, "what %s answers is not of the management API: %w; %s",
			request.URL.Host, err, setUp)
	}
	return p, nil
}

// queues are those of locks. newQueues makes it.
type queues struct {
	form  *regexp.Regexp   // of their names
	exist map[lock.ID]bool // locks of which slot 1 exists (A)
	held  map[string]bool  // names of locks whose slot 1 is held (B)
}

func newQueues(nal bool) *queues {
	form := `^(.+)-1-([AB])$`
	if nal {
		form = `^(.+)-([AB])-1$`
	}
	return &queues{form: regexp.MustCompile(form), exist: map[lock.ID]bool{}, held: map[string]bool{}}
}

// kinds are those of locks whose queues have names of their own, by how these go on after the lock's; see protocol.md.
var kinds = map[string]lock.Kind{
	"-K": lock.TokenSemaphore, "-Q": lock.TokenSemaphore, "-Q-M": lock.Mutex, "-Q-P": lock.PersistentMutex,
}

func (q *queues) add(all []queue) {
	for _, queue := range all {
		parts := q.form.FindStringSubmatch(queue.Name)
		length := queue.Arguments.MaxLength
		ours := length != nil && *length == 0 && queue.Arguments.Overflow == "drop-head"
		if parts == nil || !ours {
			continue
		}
		id := lock.ID{Kind: lock.Semaphore, Name: parts[1]}
		for suffix, kind := range kinds {
			if name, found := strings.CutSuffix(parts[1], suffix); found {
				id = lock.ID{Kind: kind, Name: name}
			}
		}
		switch {
		case id.Check() != nil:
		case parts[2] == "A":
			q.exist[id] = true
		case id.Kind == lock.Semaphore:
			q.held[id.Name] = true
		}
	}
}

// locks returns the locks in the order of their names. What is held, and does not exist beside, is a mutex.
func (q *queues) locks() (ids []lock.ID) {
	for name := range q.held {
		if !q.exist[lock.ID{Kind: lock.Semaphore, Name: name}] {
			q.exist[lock.ID{Kind: lock.Mutex, Name: name}] = true
		}
	}
	ids = slices.Collect(maps.Keys(q.exist))
	slices.SortFunc(ids, func(a, b lock.ID) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return ids
}
