package holding

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/claim"
	"berth/lock/rabbit/ledger"
)

var stays = seen(isHeld(4, me), isHeld(5, "a"))

func TestWhatOneDoesThatWaitsForASlotOnQuorumQueues(t *testing.T) {
	waits := quorumSituation{left: time.Second, lease: lease}
	over := quorumSituation{lease: lease}
	empty := quorumSituation{left: time.Second, lease: lease, empty: true}
	blocked := quorumSituation{left: time.Second, lease: lease, blocked: true}
	gone := quorumSituation{lease: lease, gaveUp: true, blocked: true}
	for name, c := range map[string]struct {
		s     quorumSituation
		known ledger.View
		want  step
	}{
		"somebody may live":             {waits, somebody, listen},
		"nobody has to end":             {waits, free, start},
		"its caller has given up":       {gone, ended(free), giveUp},
		"the place is lost":             {blocked, ended(disowned), losePlace},
		"its own guard has released it": {blocked, holderAlive(disowned), loseToGuard},
		"it has, and the delay is over": {over, disowned, loseToGuard},
		"a holder lives":                {waits, holderAlive(somebody), stepBack},
		"it lives, and is over":         {waits, holderAlive(free), stepBack},
		"it lives, after the delay":     {over, holderAlive(somebody), stepBack},
		"it lives, the broker is full":  {blocked, holderAlive(somebody), stepBack},
		"the broker is full":            {blocked, free, breakOff},

		// The release may have come while the place was somebody else's.
		"the last proof is old":        {waits, proven(lease/2+time.Second, free), proveAgain},
		"it is nearly old":             {waits, proven(lease/2-10*time.Second, free), start},
		"it is, and somebody may live": {waits, proven(lease, somebody), listen},

		// A berth that was here and has gone has a higher term: the command would start with a lower one.
		"somebody was here, and has gone":     {waits, visited, recordAgain},
		"the same, and the proof is old":      {waits, proven(lease, visited), recordAgain},
		"somebody was here, the delay over":   {over, stays, recordAgain},
		"somebody is here, and the delay not": {waits, stays, listen},

		// Nobody was heard of for as long as anybody may live.
		"the delay is over":                   {over, somebody, proveLast},
		"it is not yet":                       {quorumSituation{left: 1, lease: lease}, somebody, listen},
		"nor is it, and somebody has come":    {quorumSituation{left: 1, lease: lease}, stays, listen},
		"it is, by an old proof":              {over, proven(lease, somebody), proveLast},
		"the ledger said nothing":             {empty, free, listen},
		"it said nothing, and the delay over": {quorumSituation{lease: lease, empty: true}, free, proveLast},
	} {
		if got := c.s.next(c.known); got != c.want {
			t.Errorf("%s: it would %s, not %s", name, got, c.want)
		}
	}
}

// A proof that begins after the delay shows what has kept the place from us since.
func TestLastProofCountsWhereNothingHasCome(t *testing.T) {
	for name, c := range map[string]struct {
		known ledger.View
		want  bool
	}{
		"nothing": {somebody, true}, "a sign of life": {holderAlive(somebody), false}, "a later record": {stays, false},
		"a later record that is over": {visited, false}, "the own release": {disowned, false},
	} {
		if undisturbed(c.known) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

func TestHowLongOneWaitsOnQuorumQueues(t *testing.T) {
	const longest = 2 * lease
	may := func(d time.Duration) ledger.Record { return ledger.Holding{Term: 3, ID: "a"}.Held(d, "host", 1) }
	for name, c := range map[string]struct {
		empty bool
		known ledger.View
		want  time.Duration
	}{
		"it says how long it may live":        {false, seen(may(time.Second)), time.Second},
		"it does not":                         {false, seen(may(0)), lease},
		"it is over":                          {false, free, 0},
		"the ledger said nothing":             {true, free, longest},
		"nothing, and more has come":          {true, seen(may(time.Second)), longest},
		"nothing, and one that lives longer":  {true, seen(may(longest + time.Second)), longest + time.Second},
		"it says nothing":                     {false, seen(), lease},
		"it says nothing, and is known empty": {true, seen(), longest},
	} {
		h := &quorum{Held: &Held{Holder: &Holder{Env: Env{MaxLease: longest}}, lease: lease}}
		h.reader.Store(&ledger.Reader{Empty: c.empty})
		if got := h.delay(c.known); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

func TestWhatRecordsMeanForOneThatHolds(t *testing.T) {
	for name, c := range map[string]struct {
		known  ledger.View
		proven bool
		want   error // nil: nothing
	}{
		"it is alone":                       {free, true, nil},
		"its own guard has released it":     {disowned, false, lock.ErrLost},
		"so it has, by a proof":             {disowned, true, lock.ErrLost},
		"one that had its place waits":      {stays, true, lock.ErrInDoubt},
		"one with its term does":            {seen(isHeld(4, me), isHeld(4, "a")), true, lock.ErrInDoubt},
		"one does, as was known before":     {stays, false, nil},
		"one of before is not released yet": {somebody, true, nil},
		"one that had it has gone":          {visited, true, nil},
	} {
		h := &quorum{Held: &Held{Holder: &Holder{}, Claim: claim.New("slot 1", "", nil, nil, hclog.NewNullLogger())}}
		err := h.judgeRecords(c.known, c.proven)
		if (err == nil) != (c.want == nil) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if lost := errors.Is(h.Claim.Cause(), lock.ErrLost); lost != (c.want == lock.ErrLost) {
			t.Errorf("%s: lost for good: %v", name, lost)
		}
	}
}
