// Package web serves what a berth says of itself (package feed) to Prometheus, to probes and to people:
//
//	web.Serve(listener, os.Stdin, asks) // until the feed ends, because berth has
//
// It knows nothing but what it is told, and changes nothing. It only asks berth to see who holds the lock, for a client
// of a berth that does not. Every client that can reach it may ask; it bounds what they can take.
package web

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/observe/feed"
)

const (
	// maxConnections is how many are served at once. Others wait in the kernel, which refuses them when those are
	// too many.
	maxConnections = 256

	// headerTimeout and the others bound for how long one of them is kept by somebody who is slow.
	headerTimeout, writeTimeout, idleTimeout = time.Second, 5 * time.Second, 10 * time.Second

	maxHeaderBytes = 8 << 10

	// maxLine bounds what is read as one line of the feed, whose lines have some 10 kB.
	maxLine = 1 << 20

	// silence is for how long berth may say nothing, where it says something once a second. A host under load
	// keeps it waiting for a moment.
	silence = 5 * feed.Beat

	// askPause is the least time from one question to berth to the next.
	askPause = time.Second
)

//go:embed page.html
var page []byte

// Serve answers on the listener what the feed says, until that ends. It writes a byte to asks when somebody wants to
// see who holds the lock.
func Serve(listener net.Listener, from io.Reader, asks io.Writer) error {
	s := &server{loopback: isLoopback(listener.Addr()), wanted: make(chan struct{}, 1)}
	ended := make(chan struct{})
	defer close(ended)
	go s.ask(asks, ended)
	web := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(&limited{Listener: listener, free: make(chan struct{}, maxConnections)}) }()
	over := make(chan error, 1)
	go func() { over <- s.read(from) }()
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve %s: %w", listener.Addr(), err)
	case err := <-over:
		_ = web.Close()
		return err
	}
}

// server is what is known of the berth.
type server struct {
	loopback bool
	latest   atomic.Pointer[feed.Snapshot] // nil: nothing was said yet
	wanted   chan struct{}                 // has room for one: somebody wants to see who holds the lock
}

// ask has berth look at the lock while that is wanted. Berth may be stopped, and keeps only this waiting then.
func (s *server) ask(asks io.Writer, ended <-chan struct{}) {
	for {
		select {
		case <-s.wanted:
		case <-ended:
			return
		}
		if _, err := asks.Write([]byte{'?'}); err != nil {
			return
		}
		select {
		case <-time.After(askPause):
		case <-ended:
			return
		}
	}
}

// read takes what berth says. Its end is berth's.
func (s *server) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var now feed.Snapshot
		if err := json.Unmarshal(lines.Bytes(), &now); err != nil {
			return fmt.Errorf("cannot read what berth says: %w", err)
		}
		now.Heard = time.Now()
		s.latest.Store(&now)
	}
	return lines.Err()
}

func (s *server) handler() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /metrics", s.metrics)
	routes.HandleFunc("GET /healthz", s.healthz)
	routes.HandleFunc("GET /readyz", s.readyz)
	routes.HandleFunc("GET /status", s.status)
	routes.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "+
			"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if s.loopback && !namesThisHost(r.Host) {
			http.Error(w, "ask for localhost, or by address", http.StatusMisdirectedRequest)
			return
		}
		routes.ServeHTTP(w, r)
	})
}

// fresh returns what berth has said, and whether it is alive.
func (s *server) fresh() (now *feed.Snapshot, alive bool) {
	now = s.latest.Load()
	return now, now != nil && time.Since(now.Heard) < silence
}

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	switch now, alive := s.fresh(); {
	case now == nil:
		http.Error(w, "berth is starting", http.StatusServiceUnavailable)
	case !alive:
		http.Error(w, fmt.Sprintf("berth has been silent since %s", now.Heard.Format(time.RFC3339)),
			http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	switch now, alive := s.fresh(); {
	case now == nil || !alive:
		s.healthz(w, nil)
	case !now.Ready:
		http.Error(w, explain(now), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, explain(now))
	}
}

func explain(now *feed.Snapshot) string {
	if now.Trouble != "" {
		return now.State + ": " + now.Trouble
	}
	return now.State
}

func (s *server) status(w http.ResponseWriter, r *http.Request) {
	now := s.latest.Load()
	if now == nil {
		s.healthz(w, r)
		return
	}
	if now.Slot == 0 {
		select {
		case s.wanted <- struct{}{}:
		default:
		}
	}
	w.Header().Set("Content-Type", "application/json")
	answer := json.NewEncoder(w)
	answer.SetIndent("", "  ")
	_ = answer.Encode(now)
}

// metrics has none before berth has said anything.
func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if now := s.latest.Load(); now != nil {
		writeMetrics(w, now)
	}
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// namesThisHost reports whether what a browser asked for is localhost, or an address. Any other name may be one that
// somebody gave this host's address, so that a page of theirs can read the answer (DNS rebinding).
func namesThisHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if name == "localhost" || name == "" {
		return true
	}
	if n := len(name); n > 2 && name[0] == '[' && name[n-1] == ']' {
		name = name[1 : n-1]
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// limited is a listener that has no more than so many connections open.
type limited struct {
	net.Listener
	free chan struct{} // has one token for each that is open
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	l.free <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &counted{Conn: conn, done: sync.OnceFunc(func() { <-l.free })}, nil
}

// counted is a connection that makes room for another when it is closed.
type counted struct {
	net.Conn
	done func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}
