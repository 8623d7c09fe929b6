package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"berth/test/relay"
)

// Messages are counters that only grow, of what clients and a server have said to
// each other.
type Messages struct {
	Requests, Answers float64 // to and from the server, without keepalives
	Keepalives        float64 // to the server, which only say that a client is alive
}

// PerSecond returns how much was counted since before, which is so many seconds ago.
func (m Messages) PerSecond(seconds float64, before Messages) Messages {
	return Messages{
		Requests:   (m.Requests - before.Requests) / seconds,
		Answers:    (m.Answers - before.Answers) / seconds,
		Keepalives: (m.Keepalives - before.Keepalives) / seconds,
	}
}

// Relay passes connections on to a broker and counts the AMQP frames on them. NewRelay makes it. Its methods may be
// called from several goroutines.
type Relay struct {
	*relay.Relay
	broker   *url.URL
	to, from tally // the broker

	mu  sync.Mutex
	err error // the first that spoils the counting
}

// NewRelay starts a relay to the broker of an amqp:// URL that has a port. The caller calls Close.
func NewRelay(broker string) (*Relay, error) {
	u, err := url.Parse(broker)
	if err != nil {
		return nil, err
	}
	r := &Relay{broker: u}
	r.to.names, r.from.names = asked, answered
	r.Relay, err = relay.New(relay.Config{To: u.Host, Pass: r.pass, Failed: r.spoil})
	return r, err
}

// URL is the broker's, through the relay.
func (r *Relay) URL() string { return r.Relay.URL(r.broker) }

// Count returns what was counted since the relay was started: frames, heartbeats
// among them as keepalives.
func (r *Relay) Count() (Messages, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Messages{
		Requests:   float64(r.to.frames.Load()),
		Answers:    float64(r.from.frames.Load()),
		Keepalives: float64(r.to.heartbeats.Load()),
	}, r.err
}

// Methods returns how often each method was said since the relay was started, once no
// client is connected. That is waited for until ctx ends.
func (r *Relay) Methods(ctx context.Context) (map[Method]int, error) {
	for r.Connected() {
		if err := Sleep(ctx, 2*time.Millisecond); err != nil {
			return nil, fmt.Errorf("clients of the broker are still connected: %w", err)
		}
	}
	all := map[Method]int{}
	r.to.methods.copyTo(all)
	r.from.methods.copyTo(all)
	r.mu.Lock()
	defer r.mu.Unlock()
	return all, r.err
}

// pass copies, and counts.
func (r *Relay) pass(ctx context.Context, to, from net.Conn, toServer bool) {
	counter := &frameCounter{tally: &r.from}
	if toServer {
		counter = &frameCounter{tally: &r.to, skip: protocolHeader}
	}
	// Counted first: what has arrived at its destination has been counted.
	_, err := io.Copy(io.MultiWriter(counter, to), from)
	if network := net.Error(nil); err != nil && !errors.As(err, &network) && ctx.Err() == nil {
		r.spoil(err)
	}
}

func (r *Relay) spoil(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf("cannot count what is said to the broker: %w", err)
	}
}
