package rabbit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"berth/lock"
)

const (
	// maxAttempts bounds the claims in one batch. Every lost race means that
	// somebody else won; there may be less of a crowd in the next batch.
	maxAttempts = 8

	// maxHaunted bounds the slots that are passed over because their last holders
	// would have to be waited for: that may be so of all, after a power failure.
	maxHaunted = 3

	// maxBlind bounds the claims of a look without the courier: the broker logs
	// each that it turns down as an error, and there is one for every slot.
	maxBlind = 32

	// searchTimeout bounds one Acquire whatever the broker does: the longest
	// search, of lock.MaxSlots slots without the courier, is cut off.
	searchTimeout = 30 * time.Second

	// largestBatch is how many slots are probed at once at most.
	largestBatch = 1024
)

// batches are how many slots are probed at once, one batch after the other; the
// last goes for all that follow. Few at first, because most locks are small. The
// second tells how many there can be, so that 1,000 take four round trips.
var batches = [...]int{16, 64, largestBatch}

// search is one attempt to find and claim a slot.
type search struct {
	l        *contender
	end      int   // no slot after it exists, as far as is known
	gap      int   // the first slot whose A a probe has not found, which end rests on; 0: none
	exist    int   // slots that were seen to exist
	lost     bool  // somebody else was faster at one
	untried  bool  // some slot that may be free was not claimed
	unknown  bool  // some queue could not be judged
	unusable error // why the first slot that may be free could not be used; nil: there is none
}

func (l *contender) acquireSlot(ctx context.Context) (*held, error) {
	bounded, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	s := &search{l: l}
	l.unsure = false
	h, err := s.hinted(bounded)
	if h != nil || err != nil {
		return h, err
	}
	h, err = s.probing(bounded)
	if errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent) {
		err = s.confirm(bounded, err)
	}
	if errors.Is(err, errNoCourier) {
		l.log.Debug("looking at one slot after the other", "lock", l.id.Name, "because", err)
		h, err = s.oneByOne(bounded)
	} else {
		l.blind = 0
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, lock.Errorf(lock.ErrUnknown, "looking for a slot of %s took more than %s", l.id, searchTimeout)
	}
	return h, err
}

// hinted claims the slot that a baton has named, without a search. It returns nil,
// nil if there is none, if that would cost as much, or if the race was lost.
func (s *search) hinted(ctx context.Context) (*held, error) {
	if s.l.hint == 0 || s.l.hint > min(s.l.limit(), largestBatch) {
		return nil, nil
	}
	// A slot beyond one that does not exist is a leftover, and nobody's.
	var before []int
	for slot := 1; slot < s.l.hint; slot++ {
		before = append(before, slot)
	}
	if _, gap, err := s.existing(ctx, before); gap > 0 || s.unknown || errors.Is(err, errNoCourier) {
		*s = search{l: s.l}
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return s.claimAny(ctx, []int{s.l.hint})
}

// probing asks about many slots at once and claims a free one.
func (s *search) probing(ctx context.Context) (*held, error) {
	s.end = s.l.limit()
	for i, from := 0, 1; from <= s.end; i++ {
		to := min(from+batches[min(i, len(batches)-1)]-1, s.end)
		look := s.survey
		if i > 0 {
			look = s.surveyHeld
		}
		free, err := look(ctx, from, to)
		if err != nil {
			return nil, err
		}
		h, err := s.claimAny(ctx, free)
		if h != nil || err != nil {
			return h, err
		}
		from = to + 1
	}
	return nil, s.nothing(ctx)
}

// claimAny claims the lowest of the free slots and, after a lost race, any of
// the others: those who lost the same race would meet again at the next one. A
// slot whose last holder would have to be waited for is passed over at first. It
// returns nil, nil if no race was won.
func (s *search) claimAny(ctx context.Context, free []int) (*held, error) {
	free = slices.DeleteFunc(free, s.spares)
	var haunted []int
	choosy := true
	for range maxAttempts {
		if choosy && (len(free) == 0 || len(haunted) == maxHaunted) {
			free, haunted, choosy = append(haunted, free...), nil, false
		}
		if len(free) == 0 {
			return nil, nil
		}
		i := 0
		if s.lost {
			i = rand.IntN(len(free))
		}
		slot := free[i]
		free = append(free[:i], free[i+1:]...)
		h, err := s.l.take(ctx, slot, choosy && len(free)+len(haunted) > 0)
		if err == nil {
			return h, nil
		}
		if errors.Is(err, errHaunted) {
			haunted = append(haunted, slot)
			continue
		}
		if !lostRace(err) {
			return nil, err
		}
		s.lost = true
		s.l.log.Debug("lost the race for a slot", "lock", s.l.id.Name, "slot", slot, "error", err)
	}
	s.untried = s.untried || len(free)+len(haunted) > 0
	return nil, nil
}

// spares reports whether the slot is left alone because of its ledger.
func (s *search) spares(slot int) bool {
	why := s.l.avoided(slot)
	if !errors.Is(why, lock.ErrUnknown) {
		return false
	}
	s.doubt(why)
	return true
}

// doubt notes why a slot could not be used. The first reason is the one that is
// told, so that it does not change from search to search.
func (s *search) doubt(why error) {
	if s.unusable == nil {
		s.unusable = why
	}
}

// errHaunted: what the last holder ran in the slot may be alive.
var errHaunted = errors.New("the slot's last holder would have to be waited for")

// lostRace: somebody else was faster, or the slot was removed meanwhile.
func lostRace(err error) bool {
	return errors.Is(err, errTaken) || errors.Is(err, errNoQueue) || errors.Is(err, lock.ErrLost)
}

// oneByOne looks at one slot after the other on the holding connection, which
// the broker serves under an alarm too. A claim tells by itself whether B is
// free. Of many slots it claims some, beginning anywhere and in the next look
// behind them.
func (s *search) oneByOne(ctx context.Context) (*held, error) {
	*s = search{l: s.l}
	slots, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	s.exist = len(slots)
	begin := 0
	if s.exist > maxBlind {
		s.untried = true
		if s.l.blind == 0 {
			s.l.blind = 1 + rand.IntN(s.exist)
		}
		begin = s.l.blind
		s.l.blind += maxBlind
	}
	for i := range min(s.exist, maxBlind) {
		h, err := s.l.take(ctx, slots[(begin+i)%s.exist], false)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, lock.ErrUnknown):
			s.doubt(err)
		case !lostRace(err):
			return nil, err
		}
	}
	return nil, s.nothing(ctx)
}

// confirm returns the outcome of a search that ended at a slot whose A was not
// found, once it is certain that the slot does not exist: a probe of A also comes
// back if the queue's node is down. The broker logs the question as an error, so
// it is not asked again while searches end at the same slot.
func (s *search) confirm(ctx context.Context, outcome error) error {
	if s.gap == 0 || s.gap == s.l.gap {
		return outcome
	}
	a := s.l.names.exists(s.gap)
	switch err := s.l.claims.find(ctx, a); {
	case errors.Is(err, errNoQueue):
		s.l.gap = s.gap
		return outcome
	case err == nil:
		return lock.Errorf(lock.ErrUnknown, "slot %d of %s appeared just now; try again", s.gap, s.l.id)
	case errors.Is(err, lock.ErrUnknown):
		return lock.Errorf(lock.ErrUnknown, "it is not known whether slot %d of %s exists: %s", s.gap, s.l.id, err.Error())
	default:
		return err
	}
}

// list returns the slots that exist, as far as that is known.
func (s *search) list(ctx context.Context) (slots []int, err error) {
	for slot := 1; slot <= s.l.limit(); slot++ {
		err := s.l.claims.find(ctx, s.l.names.exists(slot))
		switch {
		case err == nil:
			slots = append(slots, slot)
		case errors.Is(err, errNoQueue):
			return slots, nil
		case errors.Is(err, lock.ErrUnknown):
			s.unknown = true
		default:
			return nil, err
		}
	}
	return slots, nil
}

// nothing is the outcome of a search that ended without a slot.
func (s *search) nothing(ctx context.Context) error {
	s.l.unsure = s.unusable != nil
	switch {
	case s.unusable != nil:
		return s.unusable
	case s.unknown:
		return lock.Errorf(lock.ErrUnknown, "the broker could not tell about every slot of %s; try again", s.l.id)
	case s.untried:
		return lock.Errorf(lock.ErrUnknown, "the slots of %s that were tried are held, others may be free; try again", s.l.id)
	case s.exist == 0:
		return s.l.names.absent()
	default:
		return s.l.full(ctx)
	}
}
