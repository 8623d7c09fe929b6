// Package relay has a relay on 127.0.0.1 between clients and a server, for what looks at what they say, or disturbs it:
//
//	r, err := relay.New(relay.Config{To: broker.Addr(), Pass: pass})
//	defer r.Close()
//	conn, err := net.Dial("tcp", r.Addr())
//
// It knows connections, and not what is said on them.
package relay

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds how long the relay tries to reach the server.
const dialTimeout = 10 * time.Second

// Config says what a relay is between, and what it does.
type Config struct {
	To string // the server's address

	// Others are more servers that connections go to, in turn, as behind one name: one that is not reached is passed
	// over. Nil: there is one server.
	Others []string

	// Pass passes on what one side says until that ends. Both connections are closed when it returns, and when ctx ends.
	Pass func(ctx context.Context, to, from net.Conn, toServer bool)

	// Failed is told that the server was not reached. Nil: nobody is.
	Failed func(err error)
}

// Relay passes connections on to a server. New makes it. Its methods may be called from several goroutines.
type Relay struct {
	cfg      Config
	listener net.Listener
	ctx      context.Context // ends with Close
	end      context.CancelFunc
	running  sync.WaitGroup
	open     atomic.Int32 // connections
	turn     atomic.Int32 // which server is next
}

// New starts a relay on a free port of 127.0.0.1.
func New(cfg Config) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for clients of %s: %w", cfg.To, err)
	}
	r := &Relay{cfg: cfg, listener: listener}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.running.Go(r.accept)
	return r, nil
}

// Addr is where clients connect.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// URL is that of the server, through the relay.
func (r *Relay) URL(server *url.URL) string {
	u := *server
	u.Host = r.Addr()
	return u.String()
}

// Connected reports whether a client is connected.
func (r *Relay) Connected() bool { return r.open.Load() > 0 }

// Close cuts every connection and returns when nothing of the relay is left.
func (r *Relay) Close() error {
	r.end()
	err := r.listener.Close()
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
	server, err := r.dial()
	if err != nil {
		if r.cfg.Failed != nil && r.ctx.Err() == nil {
			r.cfg.Failed(err)
		}
		return
	}
	defer server.Close()
	r.open.Add(1)
	defer r.open.Add(-1)
	defer context.AfterFunc(r.ctx, func() {
		client.Close()
		server.Close()
	})()
	var both sync.WaitGroup
	both.Go(func() { r.pass(server, client, true) })
	both.Go(func() { r.pass(client, server, false) })
	both.Wait()
}

// dial reaches the server whose turn it is, or the first after it that can be reached.
func (r *Relay) dial() (server net.Conn, err error) {
	all := append([]string{r.cfg.To}, r.cfg.Others...)
	first := int(r.turn.Add(1)) - 1
	dialer := net.Dialer{Timeout: dialTimeout}
	for i := range all {
		if server, err = dialer.DialContext(r.ctx, "tcp", all[(first+i)%len(all)]); err == nil {
			break
		}
	}
	return server, err
}

func (r *Relay) pass(to, from net.Conn, toServer bool) {
	defer from.Close()
	defer to.Close()
	r.cfg.Pass(r.ctx, to, from, toServer)
}
