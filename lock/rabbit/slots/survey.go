package slots

import (
	"context"
	"errors"
	"sync"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/session"
	"berth/lock/rabbit/transport"
)

// Count asks about one slot after the other up to the first that is absent, and returns how many there are: what lies
// beyond a gap is a leftover and no slot. Halving distances would take leftovers for slots. A thousand answers take a
// tenth of a second.
func Count(ctx context.Context, channel *transport.Channel, n names.Names) (int, error) {
	for slot := 1; slot <= lock.MaxSlots; slot++ {
		switch err := channel.Find(ctx, n.Exists(slot)); {
		case err == nil:
		case errors.Is(err, transport.ErrNoQueue):
			return slot - 1, nil
		case errors.Is(err, transport.ErrTaken):
			return 0, lock.Errorf(lock.ErrUnknown, "%s; delete that foreign queue", err.Error())
		default:
			return 0, err
		}
	}
	return lock.MaxSlots, nil
}

// DetectType finds out of which type the queues of a lock are, and returns their names. Errors: lock.ErrAbsent if there is no
// slot, names.ErrOtherType if its queues are not of the type that the names say, and as transport.Channel.
func DetectType(ctx context.Context, channel *transport.Channel, n names.Names) (names.Names, error) {
	types := names.QueueTypes
	if n.Type == names.Quorum { // look for that one first: the broker logs each look in vain
		types = []names.QueueType{names.Quorum, names.Classic}
	}
	shell := false
	for _, t := range types {
		switch err := channel.Find(ctx, n.Of(t).Origin()); {
		case errors.Is(err, transport.ErrNoQueue):
		case err != nil && !errors.Is(err, transport.ErrTaken):
			return n, err
		case n.Type != t && IsShell(ctx, channel, n.Of(t)):
			shell = true
		case n.Type != "" && n.Type != t:
			return n, n.OfOtherType()
		default:
			return n.Of(t), nil
		}
	}
	if shell && n.Type == "" {
		return n.Of(names.Classic), nil
	}
	return n, n.Absent()
}

// OfNoOtherType makes sure that there is no mutex of these names with queues of the other type. Who makes one has the
// administration mutex. An empty ledger that a berth has left which was broken off is no such queue: with discard it is
// deleted, and reported, because then it is not known who held the slot before. Errors: names.ErrOtherType, and as
// transport.Channel.Find.
func OfNoOtherType(ctx context.Context, s *session.Session, n names.Names, makes, discard bool) (discarded bool, err error) {
	other, signs := n.Other(), n.RivalSigns()
	alike := other.Holds(1) == n.Administration() // then who has that keeps holders away
	if !other.Replicated() && !(alike && makes) { // its ledger may have been deleted
		signs = append([]names.Sign{{Of: other, Queue: other.Holds(1)}}, signs...) // the ledger last, which may be deleted
	}
	once := s.Aside()
	defer once.Close(ctx)
	found := findAll(ctx, s, signs)
	for i, sign := range signs {
		switch err := found[i]; {
		case errors.Is(err, transport.ErrNoQueue):
		case errors.Is(err, transport.ErrTaken) && sign.Queue == n.Administration():
			return false, err
		case err != nil && !errors.Is(err, transport.ErrTaken):
			return false, err
		case sign.Queue == other.Origin() && isShell(ctx, once, other, alike && makes):
			if discard {
				if err := once.Discard(ctx, sign.Queue); err != nil {
					return false, err
				}
				discarded = true
			}
		default:
			return false, n.Beside(sign)
		}
	}
	return discarded, nil
}

// findAll looks at queues at once, each over a channel of its own, because a refusal closes it.
func findAll(ctx context.Context, s *session.Session, signs []names.Sign) []error {
	found := make([]error, len(signs))
	var looking sync.WaitGroup
	for i, sign := range signs {
		looking.Go(func() {
			channel := s.Aside()
			defer channel.Close(ctx)
			found[i] = channel.Find(ctx, sign.Queue)
		})
	}
	looking.Wait()
	return found
}

// IsShell reports whether the ledger of a mutex with classic queues was made by a berth that was broken off: nothing is in
// it, nobody reads it, and nobody has B, which is claimed first and kept.
func IsShell(ctx context.Context, channel *transport.Channel, n names.Names) bool {
	return isShell(ctx, channel, n, false)
}

// isShell is IsShell. With free nobody has B.
func isShell(ctx context.Context, channel *transport.Channel, n names.Names, free bool) bool {
	if n.ID.Kind != lock.Mutex || n.Replicated() {
		return false
	}
	abandoned, _, err := channel.Abandoned(ctx, n.Ledger(1))
	return err == nil && abandoned && (free || errors.Is(channel.Find(ctx, n.Holds(1)), transport.ErrNoQueue))
}

// Find finds out whether a queue A exists: nil says that it does. It probes where that costs nothing, and otherwise
// looks on the side channel: a probe that comes back proves nothing. Errors: as transport.Channel.
func Find(ctx context.Context, s *session.Session, side *transport.Channel, a string) error {
	if !s.Apart() {
		if found, err := s.ProbeOne(ctx, a); err == nil && found == transport.Present {
			return nil
		}
	}
	return side.Find(ctx, a)
}

// survey probes A and B of the slots from..to and returns the free ones. It ends the search if a slot does not exist,
// or nothing is known about any.
func (s *attempt) survey(ctx context.Context, from, to int) (free []int, err error) {
	found, err := s.Session.Probe(ctx, append(Queues(s.Names.Exists, from, to), Queues(s.Names.Holds, from, to)...))
	if err != nil {
		return nil, err
	}
	before := s.exist
	for slot := from; slot <= to; slot++ {
		a, b := found[slot-from], found[slot-from+len(found)/2]
		if a == transport.Absent {
			s.end, s.absent = slot-1, slot
			return free, nil
		}
		s.unknown = s.unknown || a == transport.Unknown || b == transport.Unknown
		if a == transport.Present {
			s.exist++
			if b == transport.Absent {
				free = append(free, slot)
			}
		}
	}
	if s.exist == before {
		s.end = to
	}
	return free, nil
}

// Queues returns a queue of each of the slots from..to.
func Queues(of func(slot int) string, from, to int) (all []string) {
	for slot := from; slot <= to; slot++ {
		all = append(all, of(slot))
	}
	return all
}

// surveyHeld does the same for slots that are probably there and held, with half the messages: B of all, and A of the
// last and of those without B. With them it asks about some slots far behind, and ends the search before the first of
// these that does not exist.
func (s *attempt) surveyHeld(ctx context.Context, from, to int) (free []int, err error) {
	queues := Queues(s.Names.Holds, from, to)
	ahead := s.milestones(to)
	for _, slot := range ahead {
		queues = append(queues, s.Names.Exists(slot))
	}
	found, err := s.Session.Probe(ctx, queues)
	if err != nil {
		return nil, err
	}
	held := 0
	var vacant []int
	for i, b := range found[:to-from+1] {
		s.unknown = s.unknown || b == transport.Unknown
		if b == transport.Absent {
			vacant = append(vacant, from+i)
		} else if b == transport.Present {
			held++
		}
	}
	for i, a := range found[to-from+1:] {
		if a == transport.Absent {
			s.end, s.absent = ahead[i]-1, ahead[i]
			break
		}
		// About one that is far behind it is asked again, if that matters.
		s.unknown = s.unknown || a == transport.Unknown && i == 0
	}
	free, gap, err := s.existing(ctx, vacant)
	if err != nil {
		return nil, err
	}
	s.exist += held + len(free)
	if gap > 0 {
		s.absent = gap
	}
	if gap > 0 || held+len(free) == 0 {
		s.end = min(s.end, to)
	}
	return free, nil
}

// milestones returns slot to, and of those behind it that the lock may have every one whose number is a power of two.
func (s *attempt) milestones(to int) []int {
	slots := []int{to}
	for slot := 1; slot <= s.end; slot *= 2 {
		if slot > to {
			slots = append(slots, slot)
		}
	}
	return slots
}

// existing returns those of the slots that are there, up to the first that is not, which is the gap; 0: there is none.
func (s *attempt) existing(ctx context.Context, slots []int) (there []int, gap int, err error) {
	if len(slots) == 0 {
		return nil, 0, nil
	}
	var queues []string
	for _, slot := range slots {
		queues = append(queues, s.Names.Exists(slot))
	}
	found, err := s.Session.Probe(ctx, queues)
	if err != nil {
		return nil, 0, err
	}
	for i, a := range found {
		if a == transport.Absent {
			return there, slots[i], nil
		}
		s.unknown = s.unknown || a == transport.Unknown
		if a == transport.Present {
			there = append(there, slots[i])
		}
	}
	return there, 0, nil
}
