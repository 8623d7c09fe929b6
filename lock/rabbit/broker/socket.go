package broker

import (
	"cmp"
	"math"
	"net"
	"sync"
	"sync/atomic"
)

// batchSize is how much is gathered before it is written: as much as a socket takes without waiting, usually.
const batchSize = 64 << 10

// Socket is a connection to a node, below TLS, whose writes can be gathered: amqp091-go writes each message by
// itself, and a search of many slots publishes a thousand.
type Socket struct {
	net.Conn

	// Blocked tells whether the node, because of an alarm, does not serve the connection any more: what it said last.
	Blocked chan bool

	cut  atomic.Bool
	mu   sync.Mutex
	left int    // writes to gather, guarded by mu
	data []byte // guarded by mu
}

func newSocket(conn net.Conn) *Socket { return &Socket{Conn: conn, Blocked: make(chan bool, 1)} }

// tell tells of Blocked. Only one goroutine may call it.
func (s *Socket) tell(blocked bool) {
	select {
	case <-s.Blocked: // nobody has taken it
	default:
	}
	s.Blocked <- blocked
}

// Write implements net.Conn.
func (s *Socket) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut.Load() {
		return 0, net.ErrClosed // nothing is gathered any more: the writer learns of it
	}
	s.data = append(s.data, data...)
	s.left = max(s.left-1, 0)
	if s.left > 0 && len(s.data) < batchSize {
		return len(data), nil
	}
	return len(data), s.write()
}

// Begin has so many writes gathered, or all until End if it is 0.
func (s *Socket) Begin(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = cmp.Or(writes, math.MaxInt)
}

// End writes what was gathered. A failure closes the connection, by which callers that await answers learn of it.
func (s *Socket) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = 0
	if err := s.write(); err != nil {
		s.Conn.Close()
	}
	s.data = nil
}

func (s *Socket) write() (err error) {
	if len(s.data) > 0 {
		_, err = s.Conn.Write(s.data)
	}
	s.data = s.data[:0]
	return err
}

// Cut closes the connection without lingering: what is still in our buffers, a claim perhaps, is not wanted any more.
func (s *Socket) Cut() {
	s.cut.Store(true)
	if tcp, ok := s.Conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	s.Conn.Close()
}
