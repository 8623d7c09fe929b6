package fault

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"berth/test/relay"
)

// Relay is between one client and its broker, before each node of that. Its methods may be called from several goroutines.
type Relay struct {
	nodes []*relay.Relay
	urls  []string

	mu      sync.Mutex        // guards the following
	open    map[net.Conn]bool // both sides of all connections
	lasting map[*Disturbance]bool
	changed chan struct{} // closed when lasting changes
}

// Disturbance is what a relay does to what passes, on new connections too.
type Disturbance struct {
	Out, In bool          // which way: what the client sends, and what the broker does
	Keep    bool          // bytes and ends are kept back
	Later   time.Duration // by which each piece is late
	Most    int           // bytes of a piece; 0: as many as there are
}

// NewRelay starts a relay to the nodes of a broker.
func NewRelay(nodes ...*url.URL) (*Relay, error) {
	r := &Relay{open: map[net.Conn]bool{}, lasting: map[*Disturbance]bool{}, changed: make(chan struct{})}
	for _, node := range nodes {
		one, err := relay.New(relay.Config{To: node.Host, Pass: r.pass})
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.nodes, r.urls = append(r.nodes, one), append(r.urls, one.URL(node))
	}
	return r, nil
}

// URL is that of the broker through the relay, or those of all nodes, with commas between them.
func (r *Relay) URL() string { return strings.Join(r.urls, ",") }

// Close cuts every connection and returns when nothing of the relay is left.
func (r *Relay) Close() (err error) {
	for _, one := range r.nodes {
		err = errors.Join(err, one.Close())
	}
	return err
}

// Reset resets (RST) all connections, on both sides, and returns how many there were.
func (r *Relay) Reset() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	closed := 0
	for conn := range r.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // which makes Close send RST: socket(7)
		}
		if conn.Close() == nil {
			closed++
		}
	}
	return (closed + 1) / 2
}

// Disturb begins a disturbance, and returns what ends it: what was kept back gets through then.
func (r *Relay) Disturb(d Disturbance) (end func()) {
	r.set(&d, true)
	return func() { r.set(&d, false) }
}

func (r *Relay) set(d *Disturbance, lasts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lasting[d] = lasts
	close(r.changed)
	r.changed = make(chan struct{})
}

// sum returns what all disturbances together do to one direction, until the channel is closed.
func (r *Relay) sum(out bool) (all Disturbance, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for d, lasts := range r.lasting {
		if lasts && (out && d.Out || !out && d.In) {
			all.Keep, all.Later, all.Most = all.Keep || d.Keep, all.Later+d.Later, max(all.Most, d.Most)
		}
	}
	return all, r.changed
}

// admit returns how many of so many bytes get through, once any do.
func (r *Relay) admit(ctx context.Context, out bool, bytes int) (int, error) {
	first, _ := r.sum(out)
	late := time.After(first.Later)
	for {
		all, changed := r.sum(out)
		through := late
		if all.Keep {
			through = nil
		}
		select {
		case <-through:
			if all.Most > 0 {
				bytes = min(bytes, all.Most)
			}
			return bytes, nil
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// pass passes on what one side sends until that ends.
func (r *Relay) pass(ctx context.Context, to, from net.Conn, out bool) {
	r.note(from, true)
	defer r.note(from, false)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for rest, more := buffer[:n], true; more; more = len(rest) > 0 {
			size, kept := r.admit(ctx, out, len(rest))
			if kept != nil {
				return
			}
			if _, failed := to.Write(rest[:size]); failed != nil {
				return
			}
			rest = rest[size:]
		}
		if err != nil {
			return
		}
	}
}

func (r *Relay) note(conn net.Conn, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if open {
		r.open[conn] = true
	} else {
		delete(r.open, conn)
	}
}
