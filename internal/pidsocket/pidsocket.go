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

	"github.com/hashicorp/go-hclog"

	"berth/internal/hearing"
	"berth/lock"
)

// Server is where this process is asked, by its own user and by root. NewServer makes it.
type Server struct {
	hearing.Soon
	requests chan lock.Request
}

// NewServer returns a server that has not begun. It does no I/O.
func NewServer(log hclog.Logger) *Server {
	s := &Server{requests: make(chan lock.Request)}
	s.Listen = s.listen
	s.Failed = func(err error) {
		log.Warn("this berth cannot be told to reload by its process number", "because", err)
	}
	return s
}

// Requests receives what is asked.
func (s *Server) Requests() <-chan lock.Request { return s.requests }

func (s *Server) listen() (end func(), err error) {
	name, err := nameOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", address(name))
	if err != nil {
		return nil, err
	}
	return hearing.Begin(hearing.Config{
		Listener: listener,
		MayAsk:   func(uid int) bool { return uid == 0 || uid == os.Geteuid() },
		Holds:    func() int { return 0 }, // nobody asks for a slot
		Requests: s.requests,
	}).End, nil
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
