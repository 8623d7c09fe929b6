package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
)

// contender is lock.Lock. It has two connections: the holding one owns B and
// never publishes, the courier publishes.
type contender struct {
	id     lock.ID
	names  names
	dialer *dialer
	log    hclog.Logger

	conn    *conn    // the holding connection; nil before the first Connect
	claims  *line    // on conn; for claiming, and all that belongs to winning and giving back
	courier *courier // opened together with conn

	stranger bool // the broker does not know us by the user of our URL

	batons  *batons // on conn; nil before the first wait or holding
	unsure  bool    // the last search left out slots that may be free, because of their ledgers
	blind   int     // where in a lock of many slots the next look without the courier begins; 0 with it
	patient bool    // the next attempt is not worth its cost before a baton comes
	looks   int     // times that a waiter has looked without having been woken
	tries   int     // attempts since a baton came that found no slot
	hint    int     // the slot that the last baton was for; 0: unknown
	gap     int     // the slot at which the last search ended, and that is certain not to exist; 0: none
	judged  bool    // B of a mutex was looked at, whether it can be a claim
	once    bool    // the first attempt is the last

	priority   int           // among waiters
	period     time.Duration // of the renewal of batons
	complained sync.Once
	policy     sync.Once // of warnOfPolicy

	handed   time.Time     // when a slot was last given back and the baton passed on
	courtesy time.Duration // from then on, before the next claim

	host  string // for the ledger
	pid   int
	since time.Time      // when conn was made
	again bool           // conn is not the first one
	spare map[int]spared // slots that are left alone for a while

	mu    sync.Mutex         // Release comes from elsewhere
	held  *held              // not yet released; guarded by mu
	debts map[holding]string // releases that the broker has not taken, with their ledgers; guarded by mu
}

// spared is a slot that is left alone.
type spared struct {
	until time.Time
	why   error // errTaken: it was given back to its holder; lock.ErrUnknown: its ledger could not be used
}

// returned reports whether this contender has just come back to a broker that
// it was connected to before. Then a ledger that does not exist proves nothing:
// a broker that was killed can lose a queue that it had just confirmed.
func (l *contender) returned() bool {
	return l.again && time.Since(l.since) < 2*l.conn.amqp.Config.Heartbeat
}

// avoidUnusable leaves the slot alone for a while if it is its ledger that is in
// the way: other slots may be free.
func (l *contender) avoidUnusable(ctx context.Context, slot int, err error) {
	passing := errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrLost) || l.conn.broken() || ctx.Err() != nil
	if l.id.Kind == lock.Semaphore && !passing {
		l.avoid(slot, unusable, lock.Errorf(lock.ErrUnknown, "%s", err.Error()))
	}
}

// avoid leaves a slot alone for a while.
func (l *contender) avoid(slot int, d time.Duration, why error) {
	if l.spare == nil {
		l.spare = map[int]spared{}
	}
	l.spare[slot] = spared{until: time.Now().Add(d), why: why}
}

// avoided returns why the slot is left alone, or nil.
func (l *contender) avoided(slot int) error {
	if s := l.spare[slot]; time.Now().Before(s.until) {
		return s.why
	}
	return nil
}

// Connect implements lock.Lock.
func (l *contender) Connect(ctx context.Context) error {
	if err := checkID(l.id); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot connect for %s: %w", l.id, err)
	}
	if l.conn != nil && !l.conn.broken() {
		return nil
	}
	if l.conn != nil {
		// A node that did not answer is not the first to be asked again. One that
		// has closed or reset the connection answers: another may be silent, and a
		// slot is to be reclaimed in time.
		if l.conn.cut.Load() {
			l.dialer.moveOn(l.dialer.begin())
		}
		l.conn.abandon()
		l.conn = nil
	}
	l.courier.prepare() // beside it: winning a slot needs both
	c, err := l.dialer.dial(ctx, "holding")
	if err != nil {
		return err
	}
	l.log.Debug("connected", "broker", c.label)
	l.again = !l.since.IsZero()
	l.batons, l.gap = nil, 0
	l.conn, l.claims, l.since = c, &line{conn: c}, time.Now()
	return nil
}

// complainOnce says what is not said again however often it happens.
func (l *contender) complainOnce(msg string, args ...any) {
	l.complained.Do(func() { l.log.Warn(msg, args...) })
}

// Acquire implements lock.Lock.
func (l *contender) Acquire(ctx context.Context) (lock.Held, error) {
	if l.present() != nil {
		return nil, fmt.Errorf("cannot acquire %s: this contender holds a slot of it already; release it first", l.id)
	}
	if l.conn == nil {
		return nil, lock.Errorf(lock.ErrUnreachable, "cannot acquire %s: not connected", l.id)
	}
	if l.conn.broken() {
		return nil, l.conn.brokenError("cannot acquire " + l.id.String())
	}
	if err := sleep(ctx, l.courtesy-time.Since(l.handed)); err != nil {
		return nil, fmt.Errorf("cannot acquire %s: %w", l.id, err)
	}
	l.payDebts(ctx)
	var h *held
	var err error
	if l.id.Kind == lock.Mutex {
		h, err = l.acquireMutex(ctx)
	} else {
		h, err = l.acquireSlot(ctx)
	}
	l.patient = errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent) || errors.Is(err, lock.ErrUnknown) && (l.blind > 0 || l.unsure)
	if err != nil {
		if !l.patient {
			l.looks = 0
		}
		return nil, err
	}
	l.tries, l.looks, l.hint = 0, 0, 0
	l.takePart().order(keep, h.slot)
	l.mu.Lock()
	l.held = h
	l.mu.Unlock()
	return h, nil
}

func (l *contender) acquireMutex(ctx context.Context) (*held, error) {
	if l.seemsHeld(ctx) {
		return nil, l.id.Full()
	}
	h, err := l.take(ctx, 1, false)
	if err != nil && lostRace(err) {
		return nil, l.full(ctx)
	}
	return h, err
}

// seemsHeld reports whether a waiter that looks by itself need not claim a mutex:
// the broker logs each claim that it turns down as an error, and no probe.
func (l *contender) seemsHeld(ctx context.Context) bool {
	if l.looks == 0 || l.tries > 0 {
		return false
	}
	found, err := l.courier.probe(ctx, []string{l.names.holds(1)})
	return err == nil && found[0] == present
}

// full is the error for a lock whose slots are all held. Who tries once is told of a
// foreign queue in the place of the only one; who waits is told later, by
// lookForForeign.
func (l *contender) full(ctx context.Context) error {
	if b := l.names.holds(1); l.once && l.limit() == 1 && l.claims.find(ctx, b) == nil {
		return l.names.foreign(b)
	}
	return l.id.Full()
}

// limit is the highest slot that the lock can have.
func (l *contender) limit() int {
	if l.id.Kind == lock.Semaphore {
		return lock.MaxSlots
	}
	return 1
}

// take claims slot and proves that it is ours. Where lostRace says so of the
// error, it is somebody else's or being removed. With choosy it returns
// errHaunted for a slot in which the command could not be started at once.
func (l *contender) take(ctx context.Context, slot int, choosy bool) (*held, error) {
	if why := l.avoided(slot); why != nil {
		return nil, why
	}
	b := l.names.holds(slot)
	r := &reader{line: l.claims, queue: l.names.ledger(slot), known: history{id: rand.Text()}}
	err := r.claim(ctx, b)
	switch {
	case errors.Is(err, errTaken):
		return nil, err
	case err != nil && r.ours:
		l.avoidUnusable(ctx, slot, err)
	case err != nil:
	case l.id.Kind.Administered():
		err = l.claims.find(ctx, l.names.exists(slot))
	}
	if !r.ours && errors.Is(err, lock.ErrDenied) {
		return nil, err // so B is not ours
	}
	if err == nil && choosy {
		if err = r.rest(ctx); err == nil && !l.vacant(r) {
			err = errHaunted
		}
	}
	if err == nil {
		var h *held
		if h, err = l.hold(ctx, slot, r); err == nil {
			return h, nil
		}
	}
	// The claim must not stay behind, and what was read must be back before it is gone.
	undo := r.putBack(ctx)
	if undo == nil {
		undo = l.claims.remove(ctx, b)
	}
	if undo != nil && !lostRace(undo) {
		l.conn.abandon()
	}
	if l.conn.broken() && ctx.Err() == nil {
		return nil, l.conn.brokenError(fmt.Sprintf("cannot take slot %d of %s", slot, l.id))
	}
	return nil, err
}

// vacant reports whether nothing of the last holder can be alive, by a ledger
// that was read to its end.
func (l *contender) vacant(r *reader) bool {
	return r.known.over() || r.fresh && len(r.known.held) == 0 && !l.returned()
}

// Close implements lock.Lock. It takes closeTimeout at most, and batonTimeout
// more if the courier is just making a baton.
func (l *contender) Close() error {
	var both sync.WaitGroup
	both.Go(l.courier.close)
	confirmed := true
	if l.conn != nil && !l.conn.broken() {
		confirmed = l.conn.close()
	}
	both.Wait()
	if l.conn != nil {
		l.conn.abandon()
		<-l.conn.done
		l.conn = nil
	}
	if h := l.present(); h != nil {
		h.settle()
		l.forget(h)
	}
	if !confirmed {
		return fmt.Errorf("cannot close %s in order: the broker did not answer within %s; the connection was cut", l.id, closeTimeout)
	}
	return nil
}

func (l *contender) present() *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// forget makes room for the next slot.
func (l *contender) forget(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == h {
		l.held = nil
	}
}
