//go:build faults

package faults

import (
	"net"
	"sync"
	"testing"
	"time"
)

// direction is one way through a relay.
type direction int

const (
	toBroker direction = iota
	fromBroker
)

// relay stands between one berth and the broker and can do what networks do. It
// is a TCP relay and not a packet filter: what berth's kernel sees when packets
// get lost is for the fault with network namespaces.
type relay struct {
	t        testing.TB
	listener net.Listener
	upstream string

	mu      sync.Mutex
	changed *sync.Cond // on mu; a gate was opened, or closing
	shut    [2]bool    // by direction: what comes is kept back, also the end; guarded by mu
	refuse  bool       // new connections are reset; guarded by mu
	latency time.Duration
	links   map[*net.TCPConn]*net.TCPConn // client to broker; guarded by mu
	closing bool
}

// newRelay listens on a free port of host, until the test ends.
func newRelay(t testing.TB, host, upstream string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, listener: listener, upstream: upstream, links: map[*net.TCPConn]*net.TCPConn{}}
	r.changed = sync.NewCond(&r.mu)
	var accepting sync.WaitGroup
	accepting.Go(func() { r.accept(&accepting) })
	t.Cleanup(func() {
		listener.Close()
		r.set(func() { r.closing = true })
		r.reset()
		accepting.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// set changes what the relay does.
func (r *relay) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.changed.Broadcast()
}

// silence keeps back everything that comes, in these directions, from now on.
func (r *relay) silence(which ...direction) {
	r.set(func() {
		for _, d := range which {
			r.shut[d] = true
		}
	})
}

// heal ends every fault but what has been reset.
func (r *relay) heal() {
	r.set(func() { r.shut, r.refuse, r.latency = [2]bool{}, false, 0 })
}

// delay makes every byte arrive that much later, in both directions.
func (r *relay) delay(d time.Duration) { r.set(func() { r.latency = d }) }

// down resets every connection, and every new one until heal.
func (r *relay) down() {
	r.set(func() { r.refuse = true })
	r.reset()
}

// reset resets (RST) all connections, on both sides.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for client, broker := range r.links {
		abort(client)
		abort(broker)
	}
}

// abort closes a connection with RST instead of FIN.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (r *relay) accept(all *sync.WaitGroup) {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		all.Go(func() { r.serve(c.(*net.TCPConn), all) })
	}
}

func (r *relay) serve(client *net.TCPConn, all *sync.WaitGroup) {
	up, err := net.DialTimeout("tcp", r.upstream, 5*time.Second)
	if err != nil {
		abort(client)
		return
	}
	broker := up.(*net.TCPConn)
	r.mu.Lock()
	refused := r.refuse || r.closing
	if !refused {
		r.links[client] = broker
	}
	r.mu.Unlock()
	if refused {
		abort(client)
		abort(broker)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.carry(broker, client, toBroker) })
	both.Go(func() { r.carry(client, broker, fromBroker) })
	both.Wait()
	r.set(func() { delete(r.links, client) })
}

// chunk is what was read at once, and when it may be handed on. Without data it
// is the end.
type chunk struct {
	data []byte
	due  time.Time
}

// carry copies one direction, and closes both when it has carried the end.
func (r *relay) carry(to, from *net.TCPConn, d direction) {
	chunks := make(chan chunk, 1000)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			r.mu.Lock()
			due := time.Now().Add(r.latency)
			r.mu.Unlock()
			if n > 0 {
				chunks <- chunk{buffer[:n], due}
			}
			if err != nil {
				chunks <- chunk{nil, due}
				return
			}
		}
	}()
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		if r.pass(d); c.data != nil {
			if _, err := to.Write(c.data); err == nil {
				continue
			}
		}
		to.Close()
		from.Close()
	}
}

// pass waits until the way is open.
func (r *relay) pass(d direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.shut[d] && !r.closing {
		r.changed.Wait()
	}
}
