package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// relay passes connections on to a broker and counts the frames on them.
type relay struct {
	listener net.Listener
	upstream string
	to, from tally // the broker

	group sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn // all, closed or not
	err   error      // the first that spoils the counting
	ended bool
}

// newRelay listens on a free port of 127.0.0.1, until close.
func newRelay(upstream string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for clients of the broker: %w", err)
	}
	r := &relay{listener: l, upstream: upstream}
	r.group.Go(r.accept)
	return r, nil
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// count returns what was counted since the relay listens.
func (r *relay) count() (messages, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return messages{
		requests:         float64(r.to.frames.Load()),
		keepalives:       float64(r.to.heartbeats.Load()),
		answers:          float64(r.from.frames.Load()),
		keepaliveAnswers: float64(r.from.heartbeats.Load()),
	}, r.err
}

// close ends every connection.
func (r *relay) close() error {
	err := r.listener.Close()
	r.mu.Lock()
	r.ended = true
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.group.Wait()
	return err
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.group.Go(func() { r.serve(client) })
	}
}

func (r *relay) serve(client net.Conn) {
	const patience = 10 * time.Second
	defer client.Close()
	broker, err := net.DialTimeout("tcp", r.upstream, patience)
	if err != nil {
		r.spoilt(err)
		return
	}
	defer broker.Close()
	if !r.keep(client, broker) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.pass(broker, client, newFrameCounter(&r.to, protocolHeader)) })
	both.Go(func() { r.pass(client, broker, newFrameCounter(&r.from, 0)) })
	both.Wait()
}

// keep has connections closed by close, and reports whether it is not too late.
func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, conns...)
	return !r.ended
}

// pass copies until one side closes, and then closes the other.
func (r *relay) pass(to, from net.Conn, counter io.Writer) {
	defer to.Close()
	// Counted first: what has arrived at its destination has been counted.
	_, err := io.Copy(io.MultiWriter(counter, to), from)
	var network net.Error
	if err != nil && !errors.As(err, &network) {
		r.spoilt(err)
	}
}

func (r *relay) spoilt(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && !r.ended {
		r.err = fmt.Errorf("cannot count what is said to the broker: %w", err)
	}
}
