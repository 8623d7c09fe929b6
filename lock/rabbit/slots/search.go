// Package slots finds out which slots of a lock exist and which may be free, by probes of their queues A and B. It
// does not know what it takes to hold one.
package slots

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/transport"
)

const (
	// maxAttempts bounds the claims in one batch. Every lost race means that somebody else won; there may be less of a
	// crowd in the next batch.
	maxAttempts = 8

	// maxPassedOver bounds the slots that are passed over because their last holders would have to be waited for: that
	// may be so of all, after a power failure.
	maxPassedOver = 3

	// maxBlind bounds the claims of a look without probes: the broker logs each that it turns down as an error, and
	// there is one for every slot.
	maxBlind = 32

	// searchTimeout bounds one Acquire whatever the broker does: the longest search, of lock.MaxSlots slots without
	// probes, is cut off.
	searchTimeout = 30 * time.Second

	// LargestBatch is how many slots are probed at once at most.
	LargestBatch = 1024
)

// batches are how many slots are probed at once, one batch after the other; the last goes for all that follow. Few at
// first, because most locks are small. The third tells how many there can be, so that 1,000 take five round trips.
var batches = [...]int{5, 16, 64, LargestBatch}

// wholeBatches are the batches in which everything is asked about every slot.
const wholeBatches = 2

// Finder finds the slots of one lock, for one contender: which exist, and which may be free. Its methods are called
// one at a time.
type Finder struct {
	Names   names.Names      // of the queues of the lock
	Session *session.Session // that asks
	Skipped *Skipped
	Limit   int  // the highest slot that the lock can have
	Once    bool // no attempt follows: it may take a question more to say what is in the way
	Log     hclog.Logger

	conn   *transport.Conn // that gap was seen on
	gap    int             // the slot at which the last search ended, and that is certain not to exist; 0: none
	unsure bool            // the last search left out slots that may be free, because of their ledgers
	exist  int             // slots that the last search has seen to exist, if it has found none free
	begin  int             // where the next one who waits begins
	known  int             // slots that Beside knows to exist: these, and what it has found since
	beside int             // the last slot that it has looked at
	sent   int             // see Sent
	sentAt time.Time
	blind  int // where in a lock of many slots the next look without probes begins; 0: with them
}

// Claim claims a slot. With atOnce it returns ErrMustWait, and has given the slot back, where a command could not be
// started at once. Where LostRace says so of the error, the slot is somebody else's or being removed.
type Claim func(ctx context.Context, slot int, atOnce bool) error

// ErrMustWait says that what the last holder ran in the slot may be alive.
var ErrMustWait = errors.New("the slot's last holder would have to be waited for")

// errNone says that no slot was claimed, and that there may be others to try.
var errNone = errors.New("no slot was claimed")

// LostRace reports whether somebody else was faster, or the slot was removed meanwhile.
func LostRace(err error) bool {
	return errors.Is(err, transport.ErrTaken) || errors.Is(err, transport.ErrNoQueue) || errors.Is(err, lock.ErrLost)
}

// Incomplete reports whether the last search has left out slots that may be free.
func (f *Finder) Incomplete() bool { return f.blind > 0 || f.unsure }

// maxWaitable bounds the slots that one who waits looks at.
const maxWaitable = 8

// Waitable returns some of the slots that the last search has seen to exist, which may be waited for.
func (f *Finder) Waitable() (slots []int) {
	exist := f.exist
	if f.Limit == 1 {
		exist = 1
	}
	for i := range min(exist, maxWaitable) {
		slots = append(slots, 1+(f.begin+i)%exist)
	}
	return slots
}

// Gap returns the first of the slots before this one that is not there: then this one is a leftover, and nobody's. 0:
// none. Errors: lock.ErrUnknown, and as transport.Channel.Find; then nothing is known.
func (f *Finder) Gap(ctx context.Context, slot int) (int, error) {
	for from := 1; from < slot; from += LargestBatch {
		found, err := f.Session.Probe(ctx, Queues(f.Names.Exists, from, min(from+LargestBatch, slot)-1))
		if err != nil {
			return f.gapOneByOne(ctx, from, slot)
		}
		if i := slices.Index(found, transport.Absent); i >= 0 {
			return from + i, nil
		}
	}
	return 0, nil
}

// gapOneByOne is Gap from a slot on, where probes are not answered, as under an alarm. Many slots would take too long.
func (f *Finder) gapOneByOne(ctx context.Context, from, slot int) (int, error) {
	if slot-from > maxBlind {
		return 0, lock.Errorf(lock.ErrUnknown, "it is not known whether there is a gap before slot %d of %s", slot, f.Names.ID)
	}
	for ; from < slot; from++ {
		err := f.Session.Side().Find(ctx, f.Names.Exists(from))
		if errors.Is(err, transport.ErrNoQueue) {
			return from, nil
		} else if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// full is the error for a lock whose slots are all held. A contender that tries once is told of a foreign queue in the
// place of the only one.
func (f *Finder) full(ctx context.Context) error {
	if b := f.Names.Holds(1); f.Once && f.Limit == 1 && f.Session.Side().Find(ctx, b) == nil {
		return f.Names.Foreign(b)
	}
	return f.Names.ID.Full()
}

// Search looks for a free slot and claims it. Errors: as lock.Lock.Acquire, and those of claim.
func (f *Finder) Search(ctx context.Context, claim Claim) error {
	if !f.Names.ID.Kind.Administered() { // there is one
		err := claim(ctx, 1, false)
		if err != nil && LostRace(err) {
			return f.full(ctx)
		}
		return err
	}
	if f.conn != f.Session.Conn() {
		f.conn, f.gap = f.Session.Conn(), 0
	}
	bounded, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	f.unsure = false
	s := &attempt{Finder: f, claim: claim}
	err := s.probing(bounded)
	if errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent) {
		err = s.confirm(bounded, err)
	}
	switch {
	case !errors.Is(err, transport.ErrUnanswered):
		f.blind = 0
	case f.Session.Blocked():
		return err // nothing is answered on this connection
	default:
		f.Log.Debug("looking at one slot after the other", "because", err)
		err = (&attempt{Finder: f, claim: claim}).oneByOne(bounded)
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return lock.Errorf(lock.ErrUnknown, "looking for a slot of %s took more than %s", f.Names.ID, searchTimeout)
	}
	return err
}

// attempt is one search.
type attempt struct {
	*Finder
	claim    Claim
	end      int   // no slot after it exists, as far as is known
	absent   int   // the first slot whose A a probe has not found, which end rests on; 0: none
	exist    int   // slots that were seen to exist
	lost     bool  // somebody else was faster at one
	untried  bool  // some slot that may be free was not claimed
	unknown  bool  // some queue could not be judged
	unusable error // why the first slot that may be free could not be used; nil: there is none
}

// probing asks about many slots at once and claims a free one.
func (s *attempt) probing(ctx context.Context) error {
	s.end = s.Limit
	for i, from := 0, 1; from <= s.end; i++ {
		to := min(from+batches[min(i, len(batches)-1)]-1, s.end)
		look := s.survey
		if i >= wholeBatches {
			look = s.surveyHeld
		}
		free, err := look(ctx, from, to)
		if err != nil {
			return err
		}
		if err := s.claimAny(ctx, free); err != errNone {
			return err
		}
		from = to + 1
	}
	return s.nothing(ctx)
}

// claimAny claims the lowest of the free slots and, after a lost race, any of the others: those who lost the same race
// would meet again at the next one. A slot whose last holder would have to be waited for is passed over at first. It
// returns errNone if no race was won.
func (s *attempt) claimAny(ctx context.Context, free []int) error {
	free = slices.DeleteFunc(free, s.doubtful)
	var passedOver []int
	atOnce := true
	for range maxAttempts {
		if atOnce && (len(free) == 0 || len(passedOver) == maxPassedOver) {
			free, passedOver, atOnce = append(passedOver, free...), nil, false
		}
		if len(free) == 0 {
			return errNone
		}
		i := 0
		if s.lost {
			i = rand.IntN(len(free))
		}
		slot := free[i]
		free = append(free[:i], free[i+1:]...)
		err := s.claim(ctx, slot, atOnce && len(free)+len(passedOver) > 0)
		switch {
		case errors.Is(err, ErrMustWait):
			passedOver = append(passedOver, slot)
		case err == nil || !LostRace(err) || errors.Is(err, lock.ErrFull):
			return err
		default:
			s.lost = true
			s.Log.Debug("lost the race for a slot", "slot", slot, "error", err)
		}
	}
	s.untried = s.untried || len(free)+len(passedOver) > 0
	return errNone
}

// doubtful reports whether the slot is left alone because of its ledger. The first reason is the one that is told, so
// that it does not change from search to search.
func (s *attempt) doubtful(slot int) bool {
	why := s.Skipped.Why(slot)
	if !errors.Is(why, lock.ErrUnknown) {
		return false
	}
	s.unusable = cmp.Or(s.unusable, why)
	return true
}

// oneByOne looks at one slot after the other, for which nothing is published: the broker answers that under an alarm
// too. A claim tells by itself whether the slot is free. Of many slots it claims some, beginning anywhere and in the
// next look behind them.
func (s *attempt) oneByOne(ctx context.Context) error {
	var slots []int // that exist, as far as that is known
	var answer error
	for slot := 1; slot <= s.Limit && !errors.Is(answer, transport.ErrNoQueue); slot++ {
		answer = s.Session.Side().Find(ctx, s.Names.Exists(slot))
		switch {
		case answer == nil:
			slots = append(slots, slot)
		case errors.Is(answer, lock.ErrUnknown):
			s.unknown = true
		case !errors.Is(answer, transport.ErrNoQueue):
			return answer
		}
	}
	s.exist = len(slots)
	begin := 0
	if s.exist > maxBlind {
		s.untried = true
		if s.blind == 0 {
			s.blind = 1 + rand.IntN(s.exist)
		}
		begin = s.blind
		s.blind += maxBlind
	}
	for i := range min(s.exist, maxBlind) {
		err := s.claim(ctx, slots[(begin+i)%s.exist], false)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, lock.ErrUnknown):
			s.unusable = cmp.Or(s.unusable, err)
		case !LostRace(err):
			return err
		}
	}
	return s.nothing(ctx)
}

// confirm returns the outcome of a search that ended at a slot whose A was not found, once it is certain that the slot
// does not exist: a probe of A also comes back if the queue's node is down. The broker logs the question as an error,
// so it is not asked again while searches end at the same slot.
func (s *attempt) confirm(ctx context.Context, outcome error) error {
	if s.absent == 0 || s.absent == s.gap {
		return outcome
	}
	a := s.Names.Exists(s.absent)
	switch err := s.Session.Side().Find(ctx, a); {
	case errors.Is(err, transport.ErrNoQueue):
		s.gap = s.absent
		return outcome
	case err == nil:
		return lock.Errorf(lock.ErrUnknown, "slot %d of %s appeared just now; try again", s.absent, s.Names.ID)
	case errors.Is(err, lock.ErrUnknown):
		return lock.Errorf(lock.ErrUnknown, "it is not known whether slot %d of %s exists: %s", s.absent, s.Names.ID,
			err.Error())
	default:
		return err
	}
}

// nothing is the outcome of a search that ended without a slot.
func (s *attempt) nothing(ctx context.Context) error {
	s.unsure = s.unusable != nil
	s.Finder.exist, s.known = s.exist, s.exist
	if s.exist > 0 {
		s.begin = rand.IntN(s.exist)
	}
	switch {
	case s.unusable != nil:
		return s.unusable
	case s.unknown:
		return lock.Errorf(lock.ErrUnknown, "the broker could not tell about every slot of %s; try again", s.Names.ID)
	case s.untried:
		return lock.Errorf(lock.ErrUnknown, "the slots of %s that were tried are held, others may be free; try again",
			s.Names.ID)
	case s.exist == 0:
		return s.Names.Absent()
	default:
		return s.full(ctx)
	}
}
