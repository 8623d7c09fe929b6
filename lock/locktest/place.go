package locktest

import (
	"sync"
	"time"

	"berth/lock"
)

// Place is where the locks of fakes live. Fakes of one place see each other's
// locks as hosts see each other's through a broker. Use NewPlace.
type Place struct {
	mu    sync.Mutex
	locks map[string]*state // by name
}

// state is one lock. All fields belong to Place.mu, except admin.
type state struct {
	slots   map[int]bool
	holders map[int]*fakeLock
	dead    map[int]time.Time // by slot: when the command of a holder that has vanished is dead
	term    uint64
	changed chan struct{} // closed, and replaced, when anything above changes
	admin   chan struct{} // holds a value while an administrator is at work
}

// NewPlace returns a place without locks.
func NewPlace() *Place { return &Place{locks: map[string]*state{}} }

// Open returns a fake that works on p. lease is what Held.Lease returns: zero
// means without end. The fake never ends a holding by itself; see Take. Ready
// waits for the lease of a last holder that was ready as well and was closed
// without a release.
func (p *Place) Open(lease time.Duration) *Fake {
	return &Fake{place: p, lease: lease, faults: map[Op]*plan{}, requests: make(chan lock.Request)}
}

// AddSlot makes one slot exist, without administration.
func (p *Place) AddSlot(id lock.ID, slot int) {
	p.change(id, func(s *state) { s.slots[slot] = true })
}

// Take takes a slot from its holder, as a broker does that has not heard from a holder
// for long enough: others can obtain it at once, and the holder's next Verify returns
// ErrLost. The holder is not told; see Fake.ReportLost.
func (p *Place) Take(id lock.ID, slot int) {
	p.change(id, func(s *state) { delete(s.holders, slot) })
}

// Held reports whether anybody holds the slot.
func (p *Place) Held(id lock.ID, slot int) (held bool) {
	p.look(id, func(s *state) { held = s.holders[slot] != nil })
	return held
}

// look calls f with the lock, which it makes if there is none.
func (p *Place) look(id lock.ID, f func(*state)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.locks[id.Name]
	if s == nil {
		s = &state{
			slots: map[int]bool{}, holders: map[int]*fakeLock{}, dead: map[int]time.Time{},
			changed: make(chan struct{}), admin: make(chan struct{}, 1),
		}
		p.locks[id.Name] = s
	}
	f(s)
}

// change is look, and wakes everybody who waits for a change of the lock.
func (p *Place) change(id lock.ID, f func(*state)) {
	p.look(id, func(s *state) {
		f(s)
		close(s.changed)
		s.changed = make(chan struct{})
	})
}

// size returns how many slots contenders for id see: 1..size.
func (s *state) size(kind lock.Kind) int {
	if kind == lock.Mutex {
		return 1
	}
	n := 0
	for s.slots[n+1] {
		n++
	}
	return n
}
