package rabbit

import (
	"net"
	"sync"
)

// socket is the broker's end of a connection, with two goroutines: one reads, one writes. It takes as much as is
// written to it, as the buffers of a kernel do for what a client says.
type socket struct {
	conn net.Conn
	wake chan struct{} // holds one, if there is something to write

	mu      sync.Mutex
	out     []byte // guarded by mu
	closing bool   // once out is written; guarded by mu
}

func newSocket(conn net.Conn) *socket { return &socket{conn: conn, wake: make(chan struct{}, 1)} }

// start starts the goroutines. What is read, and then the end, go to read.
func (s *socket) start(running *sync.WaitGroup, read func(data []byte, end bool)) {
	running.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := s.conn.Read(buffer)
			if n > 0 {
				read(append([]byte(nil), buffer[:n]...), false)
			}
			if err != nil {
				read(nil, true)
				return
			}
		}
	})
	running.Go(s.writeAll)
}

func (s *socket) writeAll() {
	defer s.conn.Close()
	for range s.wake {
		s.mu.Lock()
		out, closing := s.out, s.closing
		s.out = nil
		s.mu.Unlock()
		if _, err := s.conn.Write(out); err != nil && len(out) > 0 || closing {
			return
		}
	}
}

// write has that written.
func (s *socket) write(data []byte) {
	s.mu.Lock()
	s.out = append(s.out, data...)
	s.mu.Unlock()
	s.poke()
}

// close closes the connection once all is written.
func (s *socket) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.poke()
}

// cut closes the connection at once.
func (s *socket) cut() {
	s.conn.Close()
	s.close()
}

func (s *socket) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
