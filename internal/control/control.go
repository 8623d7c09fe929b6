// Package control is how a berth is asked over a unix socket what it does, and told to step down or to reload:
//
//	server := control.NewServer(control.Config{Dir: dir, Log: log})
//	server.Begin()     // to wait; its socket is waiting-PID-X
//	server.Holds(3)    // its socket is 3-PID-X
//	for r := range server.Requests() { ... }
//
//	client := control.Client{Dir: dir, Owners: []int{0, os.Getuid()}}
//	all, err := client.List()
//	answer, err := client.Ask(ctx, all[0], 3, lock.AskStatus)
//
//	answer, err := control.AskProcess(ctx, pid, lock.AskReload)    // of a server without Dir
//
// The client sends one line of JSON, and gets another. Berths of different versions on one host depend on both, and on
// the names of sockets.
//
//	{"request":"step-down","slot":3}    the slot that it has to hold; none: whatever it holds
//	{"answer":{"heeded":true}}          or {"refused":"WHY"} this request, or {"denied":"WHY"} this user
//
// Every berth has a socket without a file (unix(7), abstract), whether it waits or holds a slot, and whether or not its
// broker is there. Its name is berth-N-PID, with the number N of the pid namespace: two containers that share the
// host's network both have a process 1.
//
// A contender for a local lock has one more, in the directory "sockets" of the lock's directory. That directory is not
// the lock's own, as every waiter is told of each change in that. Every socket has a name that no other has had, so a
// holder that notices late that it holds nothing any more cannot take away the socket of the next one. The next server
// that begins to listen removes what is left of those that were killed.
//
// The kernel tells the user of the client, and process and user of the server (SO_PEERCRED): anybody could have taken a
// name before. Users other than root, the server's own and its administrators are sent away before anything of theirs
// is read, and no client keeps others from being heard for longer than a second.
//
// What it does not guarantee: that the contender whose socket is named after a slot holds it. The lock is the flock,
// and nothing else.
package control

import (
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
)

// delay is how long after Server.Begin the socket is made. Many a command is over sooner, and shall not pay for it.
const delay = 100 * time.Millisecond

// Config says where a berth is asked, and by whom.
type Config struct {
	// Dir is the directory of the socket. It is made when it is first needed; the one above is there. Empty: the
	// socket has no file, and the number of this process leads to it.
	Dir    string
	Admins []string     // see Server.SetAdmins
	Log    hclog.Logger // is told why nobody can ask
}

// Server is where a berth is asked. NewServer makes it. Its methods may be called at any time.
type Server struct {
	cfg      Config
	requests chan lock.Request

	mu     sync.Mutex
	later  *time.Timer  // makes the socket; nil: it has not begun, or has ended; mu
	open   *socket      // nil: it does not listen; mu
	file   *file        // of that; nil: it has none; mu
	slot   int          // that is held; 0: none; mu
	admins []string     // as they are named; mu
	uids   map[int]bool // of them; known while it listens; mu
}

// NewServer returns a server that has not begun. It does no I/O.
func NewServer(cfg Config) *Server {
	return &Server{cfg: cfg, admins: cfg.Admins, requests: make(chan lock.Request)}
}

// Requests receives what is asked.
func (s *Server) Requests() <-chan lock.Request { return s.requests }

// Begin has the socket made a moment later, unless that was begun.
func (s *Server) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil {
		s.later = time.AfterFunc(delay, s.listen)
	}
}

// End takes the socket away. Begin can make another.
func (s *Server) End() {
	s.mu.Lock()
	open := s.open
	if s.later != nil {
		s.later.Stop()
	}
	s.later, s.open, s.file = nil, nil, nil
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
	s.lookUpAdmins()
	listener, file, err := s.bind()
	switch {
	case err == nil:
		s.open, s.file = s.hearOn(listener, file), file
	case s.cfg.Dir == "":
		s.cfg.Log.Warn("this berth cannot be told to reload by its process number", "because", err)
	default:
		s.cfg.Log.Warn("cannot listen for requests: berth status cannot see this berth, and step-down cannot ask it",
			"because", err)
	}
}

// bind needs mu.
func (s *Server) bind() (*net.UnixListener, *file, error) {
	if s.cfg.Dir != "" {
		return listenIn(s.cfg.Dir, s.slot, s.mode())
	}
	address, err := addressOf(os.Getpid())
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address})
	return listener, nil, err
}

// Holds makes known which slot the contender holds. 0: it waits.
func (s *Server) Holds(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slot == slot {
		return
	}
	s.slot = slot
	if s.file != nil {
		_ = s.file.rename(nameOf(slot, s.file.id)) // else somebody has removed it
	}
}

// SetAdmins makes known which users may ask beside root and our own, by name or number. Unless there are some, no
// other user can even connect.
func (s *Server) SetAdmins(users []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admins = users
	if s.file == nil {
		return
	}
	s.lookUpAdmins()
	if err := s.file.chmod(s.mode()); err != nil {
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

// mode is that of the socket's file.
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

func (s *Server) holds(slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slot == slot
}
