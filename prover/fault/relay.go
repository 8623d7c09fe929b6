package fault

import (
	"context"
	"net"
	"sync"

	"berth/test/relay"
)

// Relay is between one client and its broker. Its methods may be called from several goroutines.
type Relay struct {
	*relay.Relay

	mu    sync.Mutex        // guards the following
	open  map[net.Conn]bool // both sides of all connections
	clear chan struct{}     // closed while something gets through
}

// NewRelay starts a relay to a server.
func NewRelay(server string) (*Relay, error) {
	r := &Relay{open: map[net.Conn]bool{}, clear: make(chan struct{})}
	close(r.clear)
	var err error
	r.Relay, err = relay.New(relay.Config{To: server, Pass: r.pass})
	return r, err
}

// Reset resets (RST) all connections, on both sides, and returns how many there were.
func (r *Relay) Reset() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // which makes Close send RST: socket(7)
		}
		conn.Close()
	}
	return len(r.open) / 2
}

// Cut keeps back whatever comes, on new connections too, until Heal: bytes, and ends.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear = make(chan struct{})
}

// Heal lets through what was kept back, and all that follows.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.clear)
}

// wait returns once something gets through.
func (r *Relay) wait(ctx context.Context) error {
	r.mu.Lock()
	clear := r.clear
	r.mu.Unlock()
	select {
	case <-clear:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass passes on what one side sends until that ends.
func (r *Relay) pass(ctx context.Context, to, from net.Conn, _ bool) {
	r.note(from, true)
	defer r.note(from, false)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if r.wait(ctx) != nil {
			return
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
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
