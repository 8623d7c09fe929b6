package guard

import (
	"sync"
	"time"

	"berth/internal/guard/wire"
)

// patience is how long a guard may take to say that it does what it was told. To begin to start or to kill takes
// milliseconds; a guard that is stopped would take for ever.
const patience = 2 * time.Second

// silence bounds for how long a guard may say nothing. Who reads what it says judges that: whatever has arrived counts,
// however late this process gets to it.
type silence struct {
	conn *wire.Conn

	mu      sync.Mutex // held while the bound is set
	killing bool       // the guard was told to kill: it says again and again that it does
	over    bool       // its tree is dead, and the bound is that of its process
}

// ordered is called before the guard is told to start or to kill.
func (s *silence) ordered(kill bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killing = s.killing || kill
	if !s.over {
		s.bound(patience)
	}
}

// broken is for whatever the guard has said. To start a command may take long after that.
func (s *silence) broken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killing {
		s.bound(wire.KillingInterval + patience)
	} else {
		_ = s.conn.SetReadDeadline(time.Time{})
	}
}

// last is for a guard that has told Dead.
func (s *silence) last(timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.bound(timeout)
}

func (s *silence) bound(d time.Duration) { _ = s.conn.SetReadDeadline(time.Now().Add(d)) }
