package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// relay stands before the broker, counts frames, and delays them if it is told
// to.
type relay struct {
	traffic
	delay atomic.Int64 // nanoseconds in each direction

	listener net.Listener
	target   string
	url      string // of the broker, through the relay
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once the relay is closed; guarded by mu
}

// newRelay starts a relay to the broker of an amqp:// URL. The caller closes it.
func newRelay(broker string) (*relay, error) {
	u, err := url.Parse(broker)
	if err != nil {
		return nil, errors.New("-broker is no URL") // the parser's error quotes the password
	}
	target := u.Host
	if u.Port() == "" {
		target = net.JoinHostPort(u.Hostname(), "5672")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the relay before the broker: %w", err)
	}
	u.Host = l.Addr().String()
	r := &relay{listener: l, target: target, url: u.String(), conns: map[net.Conn]bool{}}
	r.running.Go(r.accept)
	return r, nil
}

// close cuts every connection and returns when nothing of the relay is left.
func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.running.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed; or out of descriptors, and then clients say so
		}
		r.running.Go(func() { r.serve(client) })
	}
}

// serve relays one connection until one side closes it.
func (r *relay) serve(client net.Conn) {
	defer client.Close()
	broker, err := net.DialTimeout("tcp", r.target, patience)
	if err != nil {
		return // the client sees a connection that is closed
	}
	defer broker.Close()
	if !r.keep(client, broker) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.pass(broker, client, &frames{skip: greeting, number: &r.up, bytes: &r.upBytes}) })
	both.Go(func() { r.pass(client, broker, &frames{number: &r.down, bytes: &r.downBytes}) })
	both.Wait()
	r.mu.Lock()
	delete(r.conns, client)
	delete(r.conns, broker)
	r.mu.Unlock()
}

// keep remembers the connections for close, and reports false if that has been.
func (r *relay) keep(conns ...net.Conn) bool {
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

// piece is what was read at once.
type piece struct {
	data []byte
	due  time.Time // when it may go on
}

// pass takes what comes from one side to the other. It closes both at the end.
func (r *relay) pass(to, from net.Conn, count *frames) {
	pieces := make(chan piece, 1024)
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				from.Close() // ends the reading
			}
		}
		to.Close()
	})
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if n > 0 {
			count.feed(data[:n])
			pieces <- piece{data[:n], time.Now().Add(time.Duration(r.delay.Load()))}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	writing.Wait()
}
