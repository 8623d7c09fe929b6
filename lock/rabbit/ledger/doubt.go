package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Doubt is what was seen in a ledger that looks like records and counts neither as a holder nor as a release: of users
// that are none of the lock's, as the broker has validated them, or of terms that nobody can have reached. They may be
// those of berths that do not say from whom a record is, or log in otherwise, and whose commands run; or a stranger's. So
// a ledger that has any says nothing. The zero value has seen none.
type Doubt struct {
	Any   bool     // there were some
	Users []string // whose records they are, fewUsers at most; "" for those of nobody whom the broker has validated
	Terms bool     // records of the lock's own users have terms too far ahead

	wait time.Duration // the longest that one of them has a successor wait
	term uint64        // the highest of them that a clock may have given by now
}

const (
	// fewUsers is how many users of records that do not count are named.
	fewUsers = 3

	// unlike is how far ahead of ours a clock can be whose terms count although nobody vouches for them: or terms would
	// not grow from a berth of before to one of now. It is the shortest lease, which everybody waits who finds such a term,
	// or none: so a term that a stranger has raised by this is the clock's before anybody else begins at that.
	unlike = 2 * time.Second

	// ahead is how far a term may be ahead of the clock. What is more was not a clock's, and would be the last one.
	ahead = 20 * 365 * 24 * time.Hour
)

// firstClock is no later than any clock is that terms come from: one that begins in 1970 must not refuse everybody's.
var firstClock = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// clock is what terms begin at.
func clock() uint64 { return uint64(max(time.Now().UnixMicro(), 0)) }

// ceiling is the highest term that there can be, by a clock that may be wrong.
func ceiling() uint64 {
	return uint64(max(time.Now().UnixMicro(), firstClock.UnixMicro()) + ahead.Microseconds())
}

// add notes a record that does not count.
func (d *Doubt) add(r Record, user string, trusted bool) {
	d.Any = true
	switch {
	case trusted:
		d.Terms = true
	case len(d.Users) < fewUsers && !slices.Contains(d.Users, user):
		d.Users = append(slices.Clone(d.Users), user)
	}
	if r.Record == held {
		d.wait = max(d.wait, r.handover(MaxLease))
	}
	if soon := max(time.Now().UnixMicro(), firstClock.UnixMicro()) + unlike.Microseconds(); r.Term <= uint64(soon) {
		d.term = max(d.term, r.Term)
	}
}

// String says whose records do not count, for people.
func (d Doubt) String() string {
	var whose []string
	for _, user := range d.Users {
		if user == "" {
			whose = append(whose, "no user")
		} else {
			whose = append(whose, fmt.Sprintf("user %.64q", user))
		}
	}
	return strings.Join(whose, ", ")
}
