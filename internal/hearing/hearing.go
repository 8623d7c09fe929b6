// Package hearing is how a berth is asked something over a unix socket: who asks sends one line of JSON, and gets
// another.
//
//	h := hearing.Begin(hearing.Config{Listener: listener, MayAsk: mayAsk, Requests: requests})
//	defer h.End()
//
//	answer, err := hearing.Ask(ctx, conn, 0, lock.AskStatus)
//
// Who asks is known from the kernel (SO_PEERCRED). Who may not ask is sent away before anything is read, and nobody
// keeps others from being heard for longer than a second.
//
// When the socket is made is up to a Soon. What it is called, and whether the right one has answered, is up to those
// who use it: package sockets for the contenders of a local lock, package pidsocket for the berth that is a certain
// process.
package hearing

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"berth/lock"
)

const (
	// readPatience is for a request of 40 bytes, sent by a process of this host; and for the berth to take it.
	readPatience = time.Second
	// answerPatience is as long as a supervisor takes at most for an answer.
	answerPatience = 5 * time.Second
	// mostAtOnce is how many are heard at once. The others wait in the kernel.
	mostAtOnce = 4
)

// Config says who is heard. Its functions are called at any time.
type Config struct {
	Listener *net.UnixListener // closed by End
	MayAsk   func(uid int) bool
	Holds    func() int          // the slot that is held; 0: none
	Requests chan<- lock.Request // gets what is asked
}

// Hearing is a socket on which a berth is asked.
type Hearing struct {
	Config
	ctx    context.Context    // ends with it
	cancel context.CancelFunc // of ctx
	under  sync.WaitGroup     // its goroutines
	free   chan struct{}      // has one token for each that is heard
}

// Begin begins to hear.
func Begin(cfg Config) *Hearing {
	h := &Hearing{Config: cfg, free: make(chan struct{}, mostAtOnce)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.under.Go(h.accept)
	return h
}

// End closes the socket, and all connections to it.
func (h *Hearing) End() {
	h.cancel()
	_ = h.Listener.Close()
	h.under.Wait()
}

func (h *Hearing) accept() {
	for {
		conn, err := h.Listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no files left, for example
			select {
			case <-time.After(readPatience):
				continue
			case <-h.ctx.Done():
				return
			}
		}
		_, uid, err := Peer(conn)
		if err != nil || !h.MayAsk(uid) {
			_ = conn.SetDeadline(time.Now().Add(readPatience))
			_ = send(conn, response{Denied: "the user " + number(uid) + " may not ask this berth"})
			_ = conn.Close()
			continue
		}
		select {
		case h.free <- struct{}{}:
			h.under.Go(func() {
				h.hear(conn, UserName(uid))
				<-h.free
			})
		case <-h.ctx.Done():
			_ = conn.Close()
		}
	}
}

// hear reads a request, passes it on, and waits for the answer.
func (h *Hearing) hear(conn *net.UnixConn, from string) {
	defer conn.Close()
	defer context.AfterFunc(h.ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(readPatience))
	r, err := readRequest(conn)
	if err == nil && r.Slot != 0 && r.Slot != h.Holds() {
		err = lock.Errorf(lock.ErrAbsent, "it does not hold slot %d", r.Slot)
	}
	if err != nil {
		_ = send(conn, response{Refused: err.Error()})
		return
	}
	if gone(conn) {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(answerPatience))
	ctx, cancel := context.WithTimeout(h.ctx, answerPatience)
	defer cancel()
	answered := make(chan struct{})
	reply := func(_ context.Context, answer []byte) error {
		defer close(answered)
		return send(conn, response{Answer: answer})
	}
	select {
	case h.Requests <- lock.Request{Verb: r.Request, From: from, Reply: reply}:
	case <-time.After(readPatience):
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-answered:
	case <-ctx.Done():
	}
}
