package main

import (
	"context"
	"net"
	"sync"
	"time"
)

// relay stands between one host and the broker, and can fall silent: what comes is kept
// back, in both directions, also the end of a connection, until it speaks again.
type relay struct {
	listener net.Listener
	broker   string
	running  sync.WaitGroup
	ctx      context.Context // ends with close
	end      context.CancelFunc

	mu     sync.Mutex
	spoken chan struct{} // closed while it is not silent
}

func newRelay(broker string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, broker: broker, spoken: make(chan struct{})}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.speak()
	r.running.Go(r.accept)
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

// silence is undone by speak.
func (r *relay) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoken = make(chan struct{})
}

func (r *relay) speak() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.spoken)
}

// close cuts every connection and returns when nothing of the relay is left.
func (r *relay) close() {
	r.end()
	r.listener.Close()
	r.running.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.running.Go(func() { r.serve(client) })
	}
}

// serve relays one connection until one side closes it.
func (r *relay) serve(client net.Conn) {
	defer client.Close()
	broker, err := net.DialTimeout("tcp", r.broker, 5*time.Second)
	if err != nil {
		return
	}
	defer broker.Close()
	defer context.AfterFunc(r.ctx, func() {
		client.Close()
		broker.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { r.pass(broker, client) })
	both.Go(func() { r.pass(client, broker) })
	both.Wait()
}

// pass copies until one side closes, and closes both.
func (r *relay) pass(to, from net.Conn) {
	defer from.Close()
	defer to.Close()
	data := make([]byte, 32<<10)
	for {
		n, err := from.Read(data)
		r.awaitSpoken()
		if n > 0 {
			if _, err := to.Write(data[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *relay) awaitSpoken() {
	r.mu.Lock()
	spoken := r.spoken
	r.mu.Unlock()
	select {
	case <-spoken:
	case <-r.ctx.Done():
	}
}
