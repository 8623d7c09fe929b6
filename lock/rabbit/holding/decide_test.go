package holding

import (
	"errors"
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

const (
	me    = "me"
	lease = time.Minute // no test waits for it
)

func isHeld(term uint64, id string) ledger.Record {
	return ledger.Holding{Term: term, ID: id}.Held(time.Second, "host", 1)
}

func released(term uint64, id string) ledger.Record {
	return ledger.Record{Record: "released", Holding: ledger.Holding{Term: term, ID: id}}
}

// seen is what a reader knows whose place was proven just now.
func seen(records ...ledger.Record) ledger.View {
	return ledger.View{
		History: ledger.NewHistory(me, 0, records...), Proven: boottime.Now(), Asked: -1,
		Changed: make(chan struct{}), Ended: make(chan struct{}),
	}
}

// proven is what is known where the place was proven that long ago.
func proven(ago time.Duration, known ledger.View) ledger.View {
	known.Proven = boottime.Now().Add(-ago)
	return known
}

func holderAlive(known ledger.View) ledger.View {
	known.HolderAlive = true
	return known
}

func asks(priority int, known ledger.View) ledger.View {
	known.Asked = priority
	return known
}

func ended(known ledger.View) ledger.View {
	over := make(chan struct{})
	close(over)
	known.Ended = over
	return known
}

var (
	nobody     = seen()
	somebody   = seen(isHeld(3, "a"), isHeld(4, me))
	free       = seen(isHeld(3, "a"), released(3, "a"), isHeld(4, me))
	visited    = seen(isHeld(4, me), isHeld(5, "a"), released(5, "a"))
	unrecorded = seen(isHeld(3, "a"), released(3, "a"))
	disowned   = seen(isHeld(3, "a"), released(3, "a"), isHeld(4, me), released(4, me))
)

// waits is a reader that has recorded itself as term 4, in a ledger that it has found.
var waits = situation{term: 4, lease: lease, priority: 5}

// with returns what that is with a change.
func with(change func(*situation)) situation {
	s := waits
	change(&s)
	return s
}

func TestWhatOneDoesThatWaitsForASlot(t *testing.T) {
	var (
		ours      = with(func(s *situation) { s.ours = true })
		outside   = with(func(s *situation) { s.ours, s.out = true, true })
		asked     = with(func(s *situation) { s.ours, s.asked = true, true })
		next      = with(func(s *situation) { s.asSuccessor = true })
		nextThere = with(func(s *situation) { s.asSuccessor, s.there = true, true })
		blocked   = with(func(s *situation) { s.blocked = true })
		lost      = with(func(s *situation) { s.lost = true })
		newcomer  = with(func(s *situation) { s.term = 0 })
		knows     = with(func(s *situation) { s.mayStart = true })
		made      = with(func(s *situation) { s.missing = true })
		atOnce    = with(func(s *situation) { s.term, s.mayStart = 0, true })
	)
	gone := with(func(s *situation) { s.gaveUp, s.lost, s.blocked = true, true, true })
	for name, c := range map[string]struct {
		s     situation
		known ledger.View
		want  step
	}{
		"somebody may live":                   {waits, somebody, listen},
		"nobody has to end":                   {waits, free, start},
		"its caller has given up":             {gone, ended(free), giveUp},
		"the slot is lost":                    {lost, ended(free), sayWhy},
		"the place is":                        {waits, ended(free), losePlace},
		"it is away from the place that ends": {outside, ended(somebody), waitOutside},

		// Its guard gives the slot back when berth is gone. A successor may run by now.
		"its own guard has released it": {waits, disowned, loseToGuard},
		"while it was away":             {outside, disowned, loseToGuard},
		"though it has to wait": {waits, seen(isHeld(3, "a"), isHeld(4, me), released(4, me)),
			loseToGuard},
		"a holding that has no term has no guard": {newcomer, disowned, listen},

		// A berth that was here and has gone has a higher term: the command would start with a lower one.
		"somebody was here meanwhile, and has gone": {waits, visited, recordAgain},
		"the same, for one that knew it may start":  {knows, visited, recordAgain},
		"one that knew, and has not recorded itself": {atOnce, unrecorded,
			start},

		// The release may have lain in the socket while this process stood still, and its place have gone to another.
		"the last proof is old":              {waits, proven(lease/2+time.Second, free), proveAgain},
		"it is nearly old":                   {waits, proven(lease/2-10*time.Second, free), start},
		"it is old, and somebody was here":   {waits, proven(lease, visited), recordAgain},
		"it is old, and somebody may live":   {waits, proven(lease, somebody), listen},
		"it is old, also where it may start": {knows, proven(lease, free), proveAgain},

		// Its last holder may have seen the slot removed.
		"next, it has not seen the slot":          {next, free, lookAtSlot},
		"next, it has":                            {nextThere, free, start},
		"next, it has to wait":                    {nextThere, somebody, listen},
		"next, it has not seen it, nor the place": {next, proven(lease, free), proveAgain},

		"it does not say who may live":           {waits, nobody, listen},
		"it was made for this holding":           {made, seen(isHeld(4, me)), start},
		"the same, and somebody has come before": {made, somebody, listen},
		"it was made, and has no own record":     {with(func(s *situation) { s.missing, s.term = true, 0 }), nobody, listen},
		"nobody has to end, it is not recorded":  {newcomer, unrecorded, listen},

		// With B it waits for a holder of whom nothing was heard, and gives it back to one that lives.
		"B is ours, nobody has to end":       {ours, free, start},
		"B is ours, somebody may live":       {ours, somebody, waitOutside},
		"the holder asks for it":             {asked, somebody, handBack},
		"it asks, and nobody has to end":     {asked, free, handBack},
		"it is heard of":                     {ours, holderAlive(somebody), handBack},
		"it is heard of, and B is not ours":  {waits, holderAlive(somebody), listen},
		"it asks while this one is away":     {with(func(s *situation) { s.ours, s.out, s.asked = true, true, true }), somebody, waitOutside},
		"it is heard of while it is away":    {outside, holderAlive(somebody), waitOutside},
		"away, nobody has to end":            {outside, free, waitOutside},
		"away, and the connection is dead":   {with(func(s *situation) { s.ours, s.out, s.blocked = true, true, true }), free, breakOff},
		"it asks, and the own guard has won": {asked, disowned, loseToGuard},

		// Under an alarm nothing that is published is answered.
		"the connection is blocked":         {blocked, somebody, breakOff},
		"blocked, and nobody has to end":    {blocked, free, start},
		"blocked, and the holder has asked": {with(func(s *situation) { s.ours, s.asked, s.blocked = true, true, true }), somebody, handBack},
		"blocked, with B":                   {with(func(s *situation) { s.ours, s.blocked = true, true }), somebody, breakOff},

		"one of a higher priority asks":  {nextThere, asks(6, somebody), stepBack},
		"one of the same priority":       {nextThere, asks(5, somebody), listen},
		"one that is not next stays":     {waits, asks(6, somebody), listen},
		"one that may start stays":       {nextThere, asks(6, free), start},
		"one that has B stays":           {with(func(s *situation) { s.asSuccessor, s.ours = true, true }), asks(6, somebody), waitOutside},
		"one that is blocked breaks off": {with(func(s *situation) { s.asSuccessor, s.blocked = true, true }), asks(6, somebody), breakOff},
	} {
		if got := c.s.next(c.known); got != c.want {
			t.Errorf("%s: it would %s, not %s", name, got, c.want)
		}
	}
}

// Whatever else is so, no command starts while somebody may live, by an old proof, or below a term that was seen.
func TestNothingStartsTooEarly(t *testing.T) {
	for bits := range 1 << 9 {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		s := situation{
			out: bit(0), ours: bit(1), asked: bit(2), missing: bit(3), asSuccessor: bit(4), there: bit(5), blocked: bit(6),
			lost: bit(7), gaveUp: bit(8), term: 4, lease: lease,
		}
		for name, known := range map[string]ledger.View{
			"somebody may live":           somebody,
			"the proof is old":            proven(lease, free),
			"somebody was here meanwhile": visited,
			"its guard has released it":   disowned,
			"its place is lost":           ended(free),
		} {
			if s.next(known) == start {
				t.Errorf("%s: %+v starts", name, s)
			}
		}
		if out := s.next(free) == start && (s.out || s.lost || s.gaveUp || s.ours && s.asked || s.asSuccessor && !s.there); out {
			t.Errorf("%+v starts", s)
		}
	}
}

func TestHowLongOneWaitsForAHolderThatSaysNothing(t *testing.T) {
	const longest, own = 2 * time.Minute, 20 * time.Second
	may := func(term uint64, d time.Duration) ledger.Record {
		return ledger.Holding{Term: term, ID: "a"}.Held(d, "host", 1)
	}
	for name, c := range map[string]struct {
		empty      bool
		unreleased time.Duration // that its contender knows of
		known      ledger.View
		want       time.Duration
	}{
		"it says how long it may live":        {false, 0, seen(may(3, time.Minute)), time.Minute},
		"it does not":                         {false, 0, seen(may(3, 0)), own},
		"what the contender knows is no more": {false, time.Hour, seen(may(3, time.Minute)), time.Minute},
		"no record is left":                   {false, 0, nobody, longest},
		"none, and the contender knows":       {false, time.Hour, nobody, time.Hour},
		"it was empty, and more has come":     {true, 0, seen(may(3, time.Second)), own},
		"more, and the contender knows":       {true, time.Hour, seen(may(3, time.Second)), time.Hour},
		"more, of one that may live longer":   {true, 0, seen(may(3, longest+time.Minute)), longest + time.Minute},
	} {
		const slot, already = 2, 10 * time.Second
		w := &wait{
			Classic: &Classic{
				Held: &Held{
					Holder: &Holder{Env: Env{MaxLease: longest}, unreleased: map[int]time.Duration{slot: c.unreleased}},
					slot:   slot, lease: own,
				},
				alone: time.Now().Add(-already),
			},
			reader: &ledger.Reader{Empty: c.empty},
		}
		got, want := w.left(c.known), c.want-already
		if got > want || got < want-5*time.Second {
			t.Errorf("%s: %v, not %v", name, got, want)
		}
	}
}

func TestWhatFollowsAClaimOfB(t *testing.T) {
	taken, other := errors.Join(transport.ErrTaken), errors.New("no answer")
	no, yes := func() bool { return false }, func() bool { return true }
	for name, c := range map[string]struct {
		err           error
		broken, ended bool
		deleted       func() bool
		tries         int
		want          claiming
	}{
		"it is ours":                        {nil, false, false, no, 1, claimed},
		"the connection broke":              {taken, true, true, yes, 9, connectionGone},
		"its last holder deletes it":        {taken, false, false, no, 1, claimAgain},
		"for five times":                    {taken, false, false, no, 5, claimAgain},
		"for longer":                        {taken, false, false, no, 6, tellOwner},
		"it cannot be claimed":              {other, false, false, no, 6, cannotClaim},
		"nor can it, and the place is gone": {other, false, true, yes, 1, nothingLeft},
		// A successor starts at once in a slot without a ledger.
		"taken, and the ledger is deleted": {taken, false, true, yes, 1, successorRuns},
		// The broker may have closed the channel: a successor reads the record, and waits.
		"taken, and only the place is gone": {taken, false, true, no, 9, nothingLeft},
		// That is not asked of a place that stands.
		"taken, and the place stands": {taken, false, false, yes, 1, claimAgain},
	} {
		if got := afterClaim(c.err, c.broken, c.ended, c.deleted, c.tries); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}
