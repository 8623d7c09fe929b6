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
)

// dialTimeout bounds how long the relay tries to reach the broker.
const dialTimeout = 10 * time.Second

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

// Relay passes connections on to a broker and counts the AMQP frames on them. The
// zero value is not usable: see NewRelay. Its methods may be called from several
// goroutines.
type Relay struct {
	listener net.Listener
	broker   *url.URL
	to, from tally // the broker
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // open ones; nil once the relay is closed
	err   error             // the first that spoils the counting
}

// NewRelay starts a relay on a free port of 127.0.0.1 to the broker of an amqp://
// URL that has a port. The caller calls Close.
func NewRelay(broker string) (*Relay, error) {
	u, err := url.Parse(broker)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for clients of the broker: %w", err)
	}
	r := &Relay{listener: l, broker: u, conns: map[net.Conn]bool{}}
	r.to.names, r.from.names = asked, answered
	r.running.Go(r.accept)
	return r, nil
}

// URL is the broker's, through the relay.
func (r *Relay) URL() string {
	u := *r.broker
	u.Host = r.listener.Addr().String()
	return u.String()
}

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
	for r.connected() {
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

func (r *Relay) connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns) > 0
}

// Close cuts every connection and returns when nothing of the relay is left.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.running.Wait()
	return err
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.running.Go(func() { r.serve(client) })
	}
}

// serve relays one connection until one side closes it.
func (r *Relay) serve(client net.Conn) {
	defer client.Close()
	broker, err := net.DialTimeout("tcp", r.broker.Host, dialTimeout)
	if err != nil {
		r.spoil(err)
		return
	}
	defer broker.Close()
	if !r.keep(client, broker) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.pass(broker, client, &frameCounter{tally: &r.to, skip: protocolHeader}) })
	both.Go(func() { r.pass(client, broker, &frameCounter{tally: &r.from}) })
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, client)
	delete(r.conns, broker)
}

// keep has connections closed by Close, and reports whether it is not too late.
func (r *Relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		return false
	}
	for _, c := range conns {
		r.conns[c] = true
	}
	return true
}

// pass copies until one side closes or what it says is not AMQP, and closes both.
func (r *Relay) pass(to, from net.Conn, counter io.Writer) {
	defer from.Close()
	defer to.Close()
	// Counted first: what has arrived at its destination has been counted.
	_, err := io.Copy(io.MultiWriter(counter, to), from)
	if network := net.Error(nil); err != nil && !errors.As(err, &network) {
		r.spoil(err)
	}
}

func (r *Relay) spoil(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && r.conns != nil {
		r.err = fmt.Errorf("cannot count what is said to the broker: %w", err)
	}
}
