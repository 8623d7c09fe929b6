package sockets

import (
	"net"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"

	"berth/internal/hearing"
	"berth/lock"
)

// Config says where a contender is asked, and by whom.
type Config struct {
	Dir    string       // of the sockets; the one above is there. It is made when it is first needed.
	Admins []string     // see Server.SetAdmins
	Log    hclog.Logger // is told why nobody can ask
}

// Server is where one contender is asked. NewServer makes it. Its methods may be called at any time.
type Server struct {
	hearing.Soon
	cfg      Config
	requests chan lock.Request

	mu     sync.Mutex
	slot   int          // that is held; 0: none; mu
	admins []string     // as they are named; mu
	uids   map[int]bool // of them; known while it listens; mu
	open   *listening   // nil: it does not listen; mu
}

// NewServer returns a server that has not begun. It does no I/O.
func NewServer(cfg Config) *Server {
	s := &Server{cfg: cfg, admins: cfg.Admins, requests: make(chan lock.Request)}
	s.Listen = s.listen
	s.Failed = func(err error) {
		cfg.Log.Warn("cannot listen for requests: berth status cannot see this berth, and step-down cannot ask it",
			"because", err)
	}
	return s
}

// Requests receives what is asked.
func (s *Server) Requests() <-chan lock.Request { return s.requests }

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
		s.cfg.Log.Warn("the users of --admins cannot ask this berth", "because", err)
	}
}

// lookUpAdmins needs mu, as mode does.
func (s *Server) lookUpAdmins() {
	var unknown []string
	if s.uids, unknown = lookUp(s.admins); len(unknown) > 0 {
		s.cfg.Log.Warn("--admins names users that this host does not have", "users", unknown)
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

func (s *Server) listen() (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open, err := s.newListening()
	if err != nil {
		return nil, err
	}
	s.open = open
	return func() {
		s.forget(open)
		open.end()
	}, nil
}

// forget is for a socket that is about to go.
func (s *Server) forget(gone *listening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == gone {
		s.open = nil
	}
}

// listening is a socket that is there.
type listening struct {
	folder folder
	id     string
	name   string           // Server.mu
	heard  *hearing.Hearing // on it
	tidies sync.WaitGroup   // the goroutine that removes what others have left
}

// newListening makes a socket under another name first: one that is there and refuses connections counts as
// left behind. It needs mu.
func (s *Server) newListening() (*listening, error) {
	s.lookUpAdmins()
	dir, err := makeFolder(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	l := &listening{folder: dir, id: newID()}
	first := "new-" + l.id
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: dir.address(first)})
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // it would use the path
	l.name = nameOf(s.slot, l.id)
	if err = dir.chmod(first, s.mode()); err == nil {
		err = dir.rename(first, l.name)
	}
	if err != nil {
		_ = dir.remove(first)
		_ = listener.Close()
		_ = dir.Close()
		return nil, err
	}
	l.heard = hearing.Begin(hearing.Config{
		Listener: listener, MayAsk: s.mayAsk, Holds: s.holds, Requests: s.requests,
	})
	l.tidies.Go(dir.removeLeftovers)
	return l, nil
}

func (l *listening) rename(slot int) {
	if name := nameOf(slot, l.id); l.folder.rename(l.name, name) == nil { // else somebody has removed it
		l.name = name
	}
}

func (l *listening) end() {
	_ = l.folder.remove(l.name)
	l.heard.End()
	l.tidies.Wait()
	_ = l.folder.Close()
}
