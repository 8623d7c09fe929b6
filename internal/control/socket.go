package control

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
	// maxAtOnce is how many are heard at once. The others wait in the kernel.
	maxAtOnce = 4
)

// socket is one that is listened on.
type socket struct {
	server   *Server
	listener *net.UnixListener
	file     *file              // nil: it has none
	ctx      context.Context    // ends with it
	cancel   context.CancelFunc // of ctx
	under    sync.WaitGroup     // its goroutines
	free     chan struct{}      // has one token for each client that is heard
}

// hearOn begins to hear clients, and to remove what dead servers have left.
func (s *Server) hearOn(listener *net.UnixListener, file *file) *socket {
	k := &socket{server: s, listener: listener, file: file, free: make(chan struct{}, maxAtOnce)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.under.Go(k.accept)
	if file != nil {
		k.under.Go(file.removeLeftovers)
	}
	return k
}

// end closes the socket, and all connections to it.
func (k *socket) end() {
	if k.file != nil { // one that is there and refuses connections counts as left behind
		_ = k.file.remove(k.file.name)
		defer k.file.Close()
	}
	k.cancel()
	_ = k.listener.Close()
	k.under.Wait()
}

func (k *socket) accept() {
	for {
		conn, err := k.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no files left, for example
			if pause(k.ctx, readPatience) != nil {
				return
			}
			continue
		}
		_, uid, err := peer(conn)
		if err != nil || !k.server.mayAsk(uid) {
			_ = conn.SetDeadline(time.Now().Add(readPatience))
			_ = send(conn, response{Denied: "the user " + number(uid) + " may not ask this berth"})
			_ = conn.Close()
			continue
		}
		select {
		case k.free <- struct{}{}:
			k.under.Go(func() {
				k.hear(conn, userName(uid))
				<-k.free
			})
		case <-k.ctx.Done():
			_ = conn.Close()
		}
	}
}

// hear reads a request, passes it on, and waits for the answer.
func (k *socket) hear(conn *net.UnixConn, from string) {
	defer conn.Close()
	defer context.AfterFunc(k.ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(readPatience))
	r, err := readRequest(conn)
	if err == nil && r.Slot != 0 && !k.server.holds(r.Slot) {
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
	ctx, cancel := context.WithTimeout(k.ctx, answerPatience)
	defer cancel()
	answered := make(chan struct{})
	reply := func(_ context.Context, answer []byte) error {
		defer close(answered)
		return send(conn, response{Answer: answer})
	}
	select {
	case k.server.requests <- lock.Request{Verb: r.Request, From: from, Reply: reply}:
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

// pause returns after d, or what has ended ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
