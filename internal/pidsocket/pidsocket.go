// Package pidsocket is how the berth that is a certain process of this host is asked, whether it waits or holds a slot,
// and whether or not its broker is there:
//
//	server := pidsocket.NewServer(log)
//	server.Begin()
//	defer server.End()
//	for r := range server.Requests() { ... }
//
//	answer, err := pidsocket.Ask(ctx, pid, lock.AskReload)
//
// The socket has no file (unix(7), abstract), and its name is the process's number with that of its pid namespace: two
// containers that share the host's network both have a process 1. Anybody could have taken a name before. So who asks
// has the kernel say which process listens, and of which user it is.
package pidsocket

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/hearing"
	"berth/lock"
)

// after is how long after its start a berth begins to listen. Many a command is over sooner, and shall not pay for it.
const after = 100 * time.Millisecond

// Server is where this process is asked, by its own user and by root. Its methods may be called at any time.
type Server struct {
	log      hclog.Logger
	requests chan lock.Request

	mu    sync.Mutex
	later *time.Timer      // listens; nil: it has not begun, or has ended; mu
	heard *hearing.Hearing // nil: it does not listen; mu
}

// NewServer returns a server that has not begun. It does no I/O.
func NewServer(log hclog.Logger) *Server { return &Server{log: log, requests: make(chan lock.Request)} }

// Requests receives what is asked.
func (s *Server) Requests() <-chan lock.Request { return s.requests }

// Begin has it listen soon.
func (s *Server) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil {
		s.later = time.AfterFunc(after, s.listen)
	}
}

// End has it listen no longer.
func (s *Server) End() {
	s.mu.Lock()
	heard := s.heard
	if s.later != nil {
		s.later.Stop()
	}
	s.later, s.heard = nil, nil
	s.mu.Unlock()
	if heard != nil {
		heard.End()
	}
}

func (s *Server) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil || s.heard != nil {
		return
	}
	name, err := nameOf(os.Getpid())
	var listener *net.UnixListener
	if err == nil {
		listener, err = net.ListenUnix("unix", address(name))
	}
	if err != nil {
		s.log.Warn("this berth cannot be told to reload by its process number", "because", err)
		return
	}
	s.heard = hearing.Begin(hearing.Config{
		Listener: listener,
		MayAsk:   func(uid int) bool { return uid == 0 || uid == os.Geteuid() },
		Holds:    func() int { return 0 }, // nobody asks for a slot
		Requests: s.requests,
	})
}

// nameOf returns the name of the socket of a process that has this number where we are.
func nameOf(pid int) (string, error) {
	namespace, err := os.Readlink("/proc/self/ns/pid") // such as pid:[4026531836]
	if err != nil {
		return "", fmt.Errorf("cannot tell which pid namespace this is: %w", err)
	}
	return "berth-" + strings.Trim(namespace, "pid:[]") + "-" + strconv.Itoa(pid), nil
}

// address is that of an abstract socket.
func address(name string) *net.UnixAddr { return &net.UnixAddr{Net: "unix", Name: "@" + name} }
