package ledger

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// me is the holding that reads.
const me = "me"

// lived is how long one may live that reads.
const lived = 7 * time.Second

func isHeld(term uint64, id string, wait time.Duration) Record {
	return Holding{term, id}.Held(wait, "host", 1)
}

// over is the release of one that has seen everybody before it end, early that of one that has not.
func over(term uint64, id string) Record { return Record{Record: released, Holding: Holding{term, id}} }

func early(term uint64, id string) Record {
	return Record{Record: released, Holding: Holding{term, id}, Early: true}
}

func records(all ...Record) []Record { return all }

// says returns what a history says, in the order of the alphabet.
func says(h History) string {
	var all []string
	for word, yes := range map[string]bool{
		"blank": h.Blank(), "contested": h.Contested(), "current": h.Current(), "disowned": h.Disowned(),
		"truncated": h.Truncated(), "released": h.AllReleased(), "unknown": h.Unknown(), "unsettled": h.Unsettled(),
	} {
		if yes {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestWhatALedgerSays(t *testing.T) {
	for name, c := range map[string]struct {
		records []Record
		says    string
		wait    time.Duration // that its reader has to wait
		highest uint64
	}{
		"nothing":        {nil, "blank unknown", lived, 0},
		"one may live":   {records(isHeld(3, "a", time.Second)), "contested unsettled", time.Second, 3},
		"it is over":     {records(isHeld(3, "a", time.Second), over(3, "a")), "released", 0, 3},
		"two may live":   {records(isHeld(3, "a", 9*time.Second), isHeld(4, "b", time.Second)), "contested unsettled", 9 * time.Second, 4},
		"one of them is": {records(isHeld(3, "a", 9*time.Second), over(3, "a"), isHeld(4, "b", time.Second)), "contested unsettled", time.Second, 4},
		"the other is": {records(isHeld(3, "a", time.Second), isHeld(4, "b", 9*time.Second), over(4, "b")),
			"contested unsettled", time.Second, 4},

		// A ledger that has lost its newest record can have two of one term.
		"a term twice, one over": {records(isHeld(3, "a", time.Second), isHeld(3, "b", 9*time.Second), over(3, "b")),
			"contested unsettled", time.Second, 3},

		// One that left early has waited for somebody of whom nothing is known any more.
		"left early": {records(isHeld(3, "a", 9*time.Second), early(3, "a")), "truncated unknown", 9 * time.Second, 3},
		"left early, it knew of a shorter wait": {records(isHeld(3, "a", time.Second), early(3, "a")), "truncated unknown",
			lived, 3},
		"two left early": {records(isHeld(3, "a", 9*time.Second), early(3, "a"), isHeld(4, "b", 8*time.Second), early(4, "b")),
			"truncated unknown", 9 * time.Second, 4},
		"left early after one that is over": {records(isHeld(3, "a", time.Second), over(3, "a"),
			isHeld(4, "b", time.Second), early(4, "b")), "released", 0, 4},
		"left early after one that may live": {records(isHeld(3, "a", time.Second), isHeld(4, "b", 9*time.Second),
			early(4, "b")), "contested unsettled", time.Second, 4},
		"early, then over": {records(isHeld(3, "a", time.Second), early(3, "a"), over(3, "a")), "released", 0, 3},
		"over, then early": {records(isHeld(3, "a", time.Second), over(3, "a"), early(3, "a")), "released", 0, 3},

		// The record of the newest release is missing: the ledger has lost it.
		"the newest record is missing": {records(isHeld(3, "a", time.Second), over(3, "a"), over(4, "b")), "released truncated", 0, 4},
		"that of a term that is there": {records(isHeld(3, "a", time.Second), over(3, "a"), over(3, "b")), "released", 0, 3},
		"an older one is missing":      {records(isHeld(3, "a", time.Second), over(3, "a"), over(2, "b")), "released", 0, 3},
		"an early release alone":       {records(isHeld(3, "a", time.Second), over(3, "a"), early(4, "b")), "released", 0, 4},
		"releases alone":               {records(over(4, "b")), "blank truncated unknown", lived, 4},
		"the own release alone":        {records(over(4, me)), "blank unknown", lived, 0},

		"ours is the last": {records(isHeld(3, "a", time.Second), over(3, "a"), isHeld(4, me, time.Second)),
			"current released", 0, 3},
		"ours, again": {records(isHeld(3, "a", time.Second), over(3, "a"), isHeld(4, me, time.Second),
			isHeld(6, me, time.Second), isHeld(5, "b", time.Second), over(5, "b")), "current released", 0, 5},
		"ours, and one of before may live": {records(isHeld(3, "a", time.Second), isHeld(4, me, time.Second)),
			"current unsettled", time.Second, 3},
		"somebody was here meanwhile, and has gone": {records(isHeld(4, me, time.Second), isHeld(5, "a", time.Second),
			over(5, "a")), "released", 0, 5},
		"somebody was here, and its record is lost": {records(isHeld(3, "a", time.Second), over(3, "a"),
			isHeld(4, me, time.Second), over(5, "b")), "released truncated", 0, 5},
		"somebody came after us": {records(isHeld(4, me, time.Second), isHeld(5, "a", time.Second)),
			"contested unsettled", time.Second, 5},
		"somebody has our term": {records(isHeld(4, me, time.Second), isHeld(4, "a", time.Second)), "contested unsettled",
			time.Second, 4},
		"our guard has released us": {records(isHeld(3, "a", time.Second), over(3, "a"), isHeld(4, me, time.Second),
			over(4, me)), "disowned released", 0, 3},
		"our guard has, early": {records(isHeld(3, "a", time.Second), over(3, "a"), isHeld(4, me, time.Second),
			early(4, me)), "disowned released", 0, 3},
		"our guard has released the first term": {records(isHeld(1, me, time.Second), over(1, me)), "blank disowned unknown",
			lived, 0},
		"a release without a term": {records(over(0, me)), "blank unknown", lived, 0},
		"an older term of ours was released": {records(isHeld(3, "a", time.Second), over(3, "a"), isHeld(4, me, time.Second),
			over(4, me), isHeld(5, me, time.Second)), "current released", 0, 3},

		// Nobody else's record is without a name, and without a name none is ours.
		"a record without a name": {records(isHeld(3, "", time.Second)), "contested unsettled", time.Second, 3},

		// How long a record has others wait.
		"it does not say for how long": {records(isHeld(3, "a", 0), isHeld(4, "b", time.Second)), "contested unsettled",
			lived, 4},
		"it says less than nothing": {records(isHeld(3, "a", -time.Hour)), "contested unsettled", lived, 3},
		"it says one moment":        {records(isHeld(3, "a", time.Millisecond)), "contested unsettled", time.Millisecond, 3},
		"it says too much":          {records(isHeld(3, "a", time.Hour)), "contested unsettled", 10 * time.Minute, 3},
	} {
		h := NewHistory(me, 0, c.records...)
		if got := says(h); got != c.says {
			t.Errorf("%s: %s; want: %s", name, got, c.says)
		}
		if got := h.Wait(lived); got != c.wait {
			t.Errorf("%s: it has to wait %v, not %v", name, got, c.wait)
		}
		if got := h.Highest(); got != c.highest {
			t.Errorf("%s: term %d is the highest, not %d", name, got, c.highest)
		}
	}
}

// Who only looks has no name: a record without one is not its own.
func TestReaderWithoutANameHasNoRecord(t *testing.T) {
	h := NewHistory("", 0, isHeld(3, "", time.Second))
	if got := says(h); got != "contested unsettled" {
		t.Error(got)
	}
}

func TestHoldersThatAreWaitedFor(t *testing.T) {
	h := NewHistory(me, 0, isHeld(3, "a", time.Second), isHeld(4, "b", time.Second), isHeld(5, "c", time.Second),
		early(5, "c"), isHeld(6, me, time.Second))
	for range 50 { // in whatever order a map has them
		if last := h.Awaited(); last.Term != 4 || last.ID != "b" {
			t.Fatalf("%+v, want the last one that is not over", last)
		}
	}
	for term, want := range map[uint64]bool{3: true, 4: true, 5: false, 6: false} {
		if h.Awaits(term) != want {
			t.Errorf("term %d: %v", term, !want)
		}
	}
	if last := NewHistory(me, 0).Awaited(); last != (Record{}) {
		t.Errorf("%+v", last)
	}
}

func TestRecordsThatSayNothingAnyMore(t *testing.T) {
	h := NewHistory(me, 0, isHeld(3, "a", time.Second), isHeld(4, "b", time.Second), early(4, "b"), over(5, "c"),
		isHeld(6, me, time.Second), isHeld(7, me, time.Second))
	for r, want := range map[Record]bool{
		isHeld(3, "a", 0): false, isHeld(4, "b", 0): true, isHeld(4, "a", 0): false, isHeld(5, "c", 0): true,
		isHeld(6, me, 0): true, isHeld(7, me, 0): false, isHeld(8, me, 0): false,
	} {
		if h.past(r) != want {
			t.Errorf("%d %s: %v", r.Term, r.ID, !want)
		}
	}
}

// started is a moment of which a clock can tell that is right.
var started = time.Date(2030, time.May, 1, 0, 0, 0, 0, time.UTC)

// atClock runs a test whose clock begins there. It does not go by itself.
func atClock(t *testing.T, at time.Time, test func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(at)) // it begins in 2000
		test(t)
	})
}

func micro(at time.Time) uint64 { return uint64(at.UnixMicro()) }

func TestNextTermIsAboveAll(t *testing.T) {
	atClock(t, started, func(t *testing.T) {
		now := micro(started)
		for name, c := range map[string]struct {
			h    History
			want uint64
		}{
			"the clock's":                    {NewHistory(me, 7, isHeld(8, "a", 0), over(9, "b"), isHeld(10, me, 0)), now},
			"above that of somebody's":       {NewHistory(me, 0, isHeld(now+5, "a", 0)), now + 6},
			"above that of a release":        {NewHistory(me, 0, over(now+5, "a")), now + 6},
			"above its own":                  {NewHistory(me, 0, isHeld(now+5, me, 0)), now + 6},
			"above one that was tried":       {NewHistory(me, now+5), now + 6},
			"its own release says no more":   {NewHistory(me, 0, over(now+5, me)), now},
			"no higher than terms can be":    {NewHistory(me, 0, isHeld(math.MaxUint64-1, "a", 0)), ceiling()},
			"also where nothing is above it": {NewHistory(me, ceiling()), ceiling()},
		} {
			if got := c.h.Next(); got != c.want {
				t.Errorf("%s: %d, not %d", name, got, c.want)
			}
		}
	})
}

// A host's clock may start at 1970, or at 2000.
func TestHighestTermIsDecadesAheadOfAClockThatIsRight(t *testing.T) {
	const decades = 20 * 365 * 24 * time.Hour
	for clock, want := range map[time.Time]time.Time{
		time.Date(2001, time.May, 1, 0, 0, 0, 0, time.UTC): time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
		started: started,
	} {
		atClock(t, clock, func(t *testing.T) {
			if got := ceiling(); got != micro(want.Add(decades)) {
				t.Errorf("in %d: %v", clock.Year(), time.UnixMicro(int64(got)).UTC())
			}
		})
	}
}

// doubted returns what a reader knows that has seen records which do not count.
func doubted(known History, user string, trusted bool, all ...Record) History {
	for _, r := range all {
		known.doubt.add(r, user, trusted)
	}
	return known
}

func TestRecordThatDoesNotCountHasTheLedgerSayNothing(t *testing.T) {
	whole := NewHistory(me, 0, isHeld(3, "a", time.Second), over(3, "a"))
	for name, c := range map[string]struct {
		h    History
		says string
		wait time.Duration
	}{
		"a holder's":              {doubted(whole, "x", false, isHeld(4, "s", 9*time.Second)), "unknown unsettled", 9 * time.Second},
		"one with a shorter life": {doubted(whole, "x", false, isHeld(4, "s", time.Second)), "unknown unsettled", lived},
		"two":                     {doubted(whole, "x", false, isHeld(4, "s", 9*time.Second), isHeld(4, "s", time.Second)), "unknown unsettled", 9 * time.Second},
		"one that asks for more than any berth": {doubted(whole, "x", false, isHeld(4, "s", time.Hour)), "unknown unsettled",
			2 * time.Minute},
		"a release": {doubted(whole, "x", false, Record{Record: released, Holding: Holding{4, "s"},
			Handover: time.Hour.Milliseconds()}), "unknown unsettled", lived},
		"where there is nothing else": {doubted(NewHistory(me, 0), "x", false, isHeld(4, "s", 9*time.Second)),
			"unknown unsettled", 9 * time.Second},
	} {
		if got := says(c.h); got != c.says {
			t.Errorf("%s: %s; want: %s", name, got, c.says)
		}
		if got := c.h.Wait(lived); got != c.wait {
			t.Errorf("%s: it has to wait %v, not %v", name, got, c.wait)
		}
		if !c.h.Doubt().Any {
			t.Errorf("%s: no doubt", name)
		}
	}
}

// It may be a berth's that does not say whose it is, and whose clock is a little ahead.
func TestTermThatDoesNotCountIsUsedNearTheClock(t *testing.T) {
	in2001 := time.Date(2001, time.May, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ at, right time.Time }{
		"a clock that is right": {started, started},
		"one that is not":       {in2001, time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)},
	} {
		atClock(t, c.at, func(t *testing.T) {
			near := micro(c.right.Add(2 * time.Second))
			for _, all := range [][]Record{
				{isHeld(near, "s", 0)}, {over(near, "s")}, {isHeld(near, "s", 0), isHeld(near-1, "s", 0)},
				{isHeld(near, "s", 0), isHeld(near+1, "s", 0)},
			} {
				if got := doubted(NewHistory(me, 0), "x", false, all...).Next(); got != near+1 {
					t.Errorf("%s: after %v: %d, not %d", name, all, got, near+1)
				}
			}
			if got := doubted(NewHistory(me, 0), "x", false, isHeld(near+1, "s", 0)).Next(); got != micro(c.at) {
				t.Errorf("%s: %d, which anybody can write", name, got)
			}
		})
	}
}

func TestDoubtNamesAFewUsers(t *testing.T) {
	var d Doubt
	for _, user := range []string{"a", "a", "", strings.Repeat("b", 65), "c"} {
		d.add(isHeld(4, "s", 0), user, false)
	}
	want := `user "a", no user, user "` + strings.Repeat("b", 64) + `"`
	if got := d.String(); got != want || d.Terms {
		t.Errorf("%s, %+v", got, d)
	}
	d = Doubt{}
	d.add(isHeld(4, "s", 0), "ours", true)
	if got := d.String(); got != "" || !d.Terms {
		t.Errorf("%s, %+v: its users are the lock's", got, d)
	}
}
