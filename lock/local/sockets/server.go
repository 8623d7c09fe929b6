package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
)

// After is how long a contender has waited, or held a slot, when it begins to listen. Many a command is over
// sooner, and shall not pay for it.
const After = 100 * time.Millisecond

const (
	// readPatience is for a request of 40 bytes, sent by a process of this host; and for the contender to take it.
	readPatience = time.Second
	// answerPatience is as long as a supervisor takes at most for an answer.
	answerPatience = 5 * time.Second
	// mostAtOnce is how many are heard at once. The others wait in the kernel.
	mostAtOnce = 4
)

// Config says where a contender is asked, and by whom.
type Config struct {
	Dir    string       // of the sockets; the one above is there. It is made when it is first needed.
	Admins []string     // see Server.SetAdmins
	Log    hclog.Logger // is told why nobody can ask
}

// Server is where one contender is asked. Its methods may be called at any time.
type Server struct {
	cfg      Config
	requests chan lock.Request

	mu     sync.Mutex
	later  *time.Timer  // listens; nil: it has not begun, or has ended; mu
	slot   int          // that is held; 0: none; mu
	admins []string     // as they are named; mu
	uids   map[int]bool // of them; known while it listens; mu
	open   *listening   // nil: it does not listen; mu
}

// NewServer returns a server that has not begun. It does no I/O.
func NewServer(cfg Config) *Server {
	return &Server{cfg: cfg, admins: cfg.Admins, requests: make(chan lock.Request)}
}

// Requests receives what is asked.
func (s *Server) Requests() <-chan lock.Request { return s.requests }

// Begin has it listen soon, unless it does.
func (s *Server) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil {
		s.later = time.AfterFunc(After, s.listen)
	}
}

// Holds makes known which slot the contender holds. 0: it waits.
func (s *Server) Holds(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slot == slot {
		return
	}
	s.slot = slot
	if s.open != nil {
		s.open.rename(slot)
	}
}

// SetAdmins makes known which users may ask beside root and our own, by name or number. Unless there are some, no
// other user can even connect.
func (s *Server) SetAdmins(users []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admins = users
	if s.open == nil {
		return
	}
	s.lookUpAdmins()
	if err := s.open.folder.chmod(s.open.name, s.mode()); err != nil {
		s.cfg.Log.Warn("the users who may ask this berth cannot", "because", err)
	}
}

// lookUpAdmins needs mu, as mode does.
func (s *Server) lookUpAdmins() {
	var unknown []string
	if s.uids, unknown = lookUp(s.admins); len(unknown) > 0 {
		s.cfg.Log.Warn("of those who may ask this berth, some are no users of this host", "users", unknown)
	}
}

// mode is the socket's.
func (s *Server) mode() uint32 {
	if len(s.uids) > 0 {
		return 0o666
	}
	return 0o600
}

func (s *Server) mayAsk(uid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uid == 0 || uid == os.Geteuid() || s.uids[uid]
}

func (s *Server) holds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slot
}

// End has it listen no longer. It can begin again.
func (s *Server) End() {
	s.mu.Lock()
	open := s.open
	if s.later != nil {
		s.later.Stop()
	}
	s.later, s.open = nil, nil
	s.mu.Unlock()
	if open != nil {
		open.end()
	}
}

func (s *Server) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil || s.open != nil {
		return
	}
	open, err := s.newListening()
	if err != nil {
		s.cfg.Log.Warn("nobody can see what this berth does, or ask it to step down", "because", err)
		return
	}
	s.open = open
	open.under.Go(open.run)
}

// listening is a socket that is there.
type listening struct {
	server   *Server
	folder   folder
	listener *net.UnixListener
	id       string
	name     string             // Server.mu
	ctx      context.Context    // ends with it
	cancel   context.CancelFunc // of ctx
	under    sync.WaitGroup     // its goroutines
	free     chan struct{}      // has one token for each that may be heard
}

// newListening makes a socket under another name first: one that is there and refuses connections counts as
// left behind.
func (s *Server) newListening() (*listening, error) {
	s.lookUpAdmins()
	dir, err := makeFolder(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	l := &listening{server: s, folder: dir, id: newID(), free: make(chan struct{}, mostAtOnce)}
	first := "new-" + l.id
	l.listener, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: dir.address(first)})
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	l.listener.SetUnlinkOnClose(false) // it would use the path
	l.name = nameOf(s.slot, l.id)
	if err = dir.chmod(first, s.mode()); err == nil {
		err = dir.rename(first, l.name)
	}
	if err != nil {
		_ = dir.remove(first)
		_ = l.listener.Close()
		_ = dir.Close()
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

func (l *listening) rename(slot int) {
	if name := nameOf(slot, l.id); l.folder.rename(l.name, name) == nil { // else somebody has removed it
		l.name = name
	}
}

func (l *listening) end() {
	l.cancel()
	_ = l.folder.remove(l.name)
	_ = l.listener.Close()
	l.under.Wait()
	_ = l.folder.Close()
}

func (l *listening) run() {
	l.folder.removeLeftovers()
	for {
		conn, err := l.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no files left, for example
			select {
			case <-time.After(readPatience):
				continue
			case <-l.ctx.Done():
				return
			}
		}
		uid, err := peer(conn)
		if err != nil || !l.server.mayAsk(uid) {
			_ = conn.SetDeadline(time.Now().Add(readPatience))
			_ = send(conn, response{Denied: fmt.Sprintf("the user %d may not ask this berth", uid)})
			_ = conn.Close()
			continue
		}
		select {
		case l.free <- struct{}{}:
			l.under.Go(func() {
				l.hear(conn, userName(uid))
				<-l.free
			})
		case <-l.ctx.Done():
			_ = conn.Close()
		}
	}
}

// hear reads a request, passes it on, and waits for the answer.
func (l *listening) hear(conn *net.UnixConn, from string) {
	defer conn.Close()
	defer context.AfterFunc(l.ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(readPatience))
	r, err := readRequest(conn)
	if err == nil && r.Slot != 0 && r.Slot != l.server.holds() {
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
	ctx, cancel := context.WithTimeout(l.ctx, answerPatience)
	defer cancel()
	answered := make(chan struct{})
	reply := func(_ context.Context, answer []byte) error {
		defer close(answered)
		return send(conn, response{Answer: answer})
	}
	select {
	case l.server.requests <- lock.Request{Verb: r.Request, From: from, Reply: reply}:
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
