package main

import (
	"context"
	"net"
	"sync"

	"berth/test/relay"
)

// network stands between one host and the broker, and can fall silent: what comes is kept back, in both directions,
// also the end of a connection, until it speaks again.
type network struct {
	*relay.Relay

	mu     sync.Mutex
	spoken chan struct{} // closed while it is not silent
}

func newNetwork(broker string) (n *network, err error) {
	n = &network{spoken: make(chan struct{})}
	n.speak()
	n.Relay, err = relay.New(relay.Config{To: broker, Pass: n.pass})
	return n, err
}

// silence is undone by speak.
func (n *network) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spoken = make(chan struct{})
}

func (n *network) speak() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.spoken)
}

func (n *network) pass(ctx context.Context, to, from net.Conn, _ bool) {
	data := make([]byte, 32<<10)
	for {
		read, err := from.Read(data)
		n.awaitSpoken(ctx)
		if read > 0 {
			if _, err := to.Write(data[:read]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (n *network) awaitSpoken(ctx context.Context) {
	n.mu.Lock()
	spoken := n.spoken
	n.mu.Unlock()
	select {
	case <-spoken:
	case <-ctx.Done():
	}
}
