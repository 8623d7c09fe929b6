package rabbit

import "context"

// survey probes A and B of the slots from..to and returns the free ones. end
// says that there is no point in going on: a slot does not exist, or nothing is
// known about any.
func (s *search) survey(ctx context.Context, from, to int) (free []int, end bool, err error) {
	var queues []string
	for slot := from; slot <= to; slot++ {
		queues = append(queues, s.l.names.exists(slot), s.l.names.holds(slot))
	}
	found, err := s.l.courier.probe(ctx, queues)
	if err != nil {
		return nil, false, err
	}
	before := s.exist
	for slot := from; slot <= to; slot++ {
		a, b := found[2*(slot-from)], found[2*(slot-from)+1]
		switch {
		case a == absent:
			return free, true, nil
		case a == unknown:
			s.unknown = true
			continue
		}
		s.exist++
		switch b {
		case absent:
			free = append(free, slot)
		case unknown:
			s.unknown = true
		}
	}
	return free, s.exist == before, nil
}

// surveyHeld does the same for slots that are probably there and held, with half
// the messages: B of all, and A of the last and of those without B.
func (s *search) surveyHeld(ctx context.Context, from, to int) (free []int, end bool, err error) {
	var queues []string
	for slot := from; slot <= to; slot++ {
		queues = append(queues, s.l.names.holds(slot))
	}
	found, err := s.l.courier.probe(ctx, append(queues, s.l.names.exists(to)))
	if err != nil {
		return nil, false, err
	}
	held, last := 0, found[len(queues)]
	var vacant []int
	for i, b := range found[:len(queues)] {
		switch b {
		case absent:
			vacant = append(vacant, from+i)
		case present:
			held++
		case unknown:
			s.unknown = true
		}
	}
	s.unknown = s.unknown || last == unknown
	free, gap, err := s.existing(ctx, vacant)
	s.exist += held + len(free)
	return free, gap || last == absent || held+len(free) == 0, err
}

// existing returns those of the slots that are there, up to the first that is not.
func (s *search) existing(ctx context.Context, slots []int) (there []int, gap bool, err error) {
	if len(slots) == 0 {
		return nil, false, nil
	}
	var queues []string
	for _, slot := range slots {
		queues = append(queues, s.l.names.exists(slot))
	}
	found, err := s.l.courier.probe(ctx, queues)
	if err != nil {
		return nil, false, err
	}
	for i, a := range found {
		switch a {
		case absent:
			return there, true, nil
		case present:
			there = append(there, slots[i])
		case unknown:
			s.unknown = true
		}
	}
	return there, false, nil
}
