package hearing

import (
	"sync"
	"time"
)

// After is how long after Soon.Begin a socket is made. Many a command is over sooner, and shall not pay for it.
const After = 100 * time.Millisecond

// Soon makes a socket a moment after it is told to. Its methods may be called at any time.
type Soon struct {
	// Listen makes it, and returns what ends it.
	Listen func() (end func(), err error)
	// Failed is told why it cannot be made.
	Failed func(err error)

	mu    sync.Mutex
	later *time.Timer // makes it; nil: it has not begun, or has ended; mu
	end   func()      // nil: there is no socket; mu
}

// Begin has the socket made soon, unless that was begun.
func (s *Soon) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil {
		s.later = time.AfterFunc(After, s.listen)
	}
}

// End takes the socket away. Begin can make another.
func (s *Soon) End() {
	s.mu.Lock()
	end := s.end
	if s.later != nil {
		s.later.Stop()
	}
	s.later, s.end = nil, nil
	s.mu.Unlock()
	if end != nil {
		end()
	}
}

func (s *Soon) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil || s.end != nil {
		return
	}
	end, err := s.Listen()
	if err != nil {
		s.Failed(err)
		return
	}
	s.end = end
}
