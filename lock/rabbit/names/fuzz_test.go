package names

import (
	"slices"
	"testing"

	"berth/lock"
)

// queues are all queues that a lock may use, by what they are for, of one slot.
func queues(n Names, slot int) map[string]string {
	all := map[string]string{
		"holds": n.Holds(slot), "ledger": n.Ledger(slot), "waiters": n.Waiters(), "mark": n.Mark(),
	}
	if n.ID.Kind.Administered() {
		all["exists"] = n.Exists(slot)
		all["administration"] = n.Administration()
	}
	return all
}

// lockOf returns a lock of this name: which one, a number says.
func lockOf(name string, kind, slot uint) (Names, int) {
	n := Names{Naming: []Naming{NLA, NAL}[kind%2], ID: lock.ID{Kind: lock.Kinds[kind/2%uint(len(lock.Kinds))], Name: name}}
	return n.Of(QueueTypes[kind/8%2]), int(slot%lock.MaxSlots) + 1
}

// A queue that two locks share would have one hold the other's slot, or read its ledger.
func FuzzLocksOfDifferentNamesShareNoQueue(f *testing.F) {
	f.Add("db", uint(0), uint(0), "db-1", uint(1), uint(0))
	f.Add("a-K", uint(2), uint(1), "a", uint(6), uint(1))
	f.Add("a-1", uint(1), uint(0), "a", uint(3), uint(0))
	f.Add("é-0", uint(14), uint(9), "é-09", uint(7), uint(99998))
	f.Fuzz(func(t *testing.T, name string, kind, slot uint, otherName string, otherKind, otherSlot uint) {
		n, s := lockOf(name, kind, slot)
		other, otherS := lockOf(otherName, otherKind, otherSlot)
		if n.ID.Check() != nil || other.ID.Check() != nil || name == otherName {
			return
		}
		for what, queue := range queues(n, s) {
			for otherWhat, otherQueue := range queues(other, otherS) {
				if queue == otherQueue {
					t.Errorf("%q is %s of %v and %s of %v", queue, what, n, otherWhat, other)
				}
			}
		}
	})
}

// The broker refuses longer names, and a queue with two meanings has none. In N-A-L naming a mutex is what a semaphore
// of its name is administered by, see NAL.
func FuzzQueuesOfALockDifferAndHaveRoom(f *testing.F) {
	f.Add("db", uint(0), uint(0), uint(1))
	f.Add("0", uint(13), uint(99998), uint(9999))
	f.Fuzz(func(t *testing.T, name string, kind, slot, otherSlot uint) {
		n, s := lockOf(name, kind, slot)
		_, otherS := lockOf(name, kind, otherSlot)
		if n.ID.Check() != nil {
			return
		}
		var all []string
		for _, queue := range queues(n, s) {
			if queue == "" || len(queue) > 255 {
				t.Errorf("%v has a queue whose name has %d bytes", n, len(queue))
			}
			all = append(all, queue)
		}
		slices.Sort(all)
		if len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("two queues of %v have one name: %q", n, all)
		}
		if s != otherS && n.ID.Kind != lock.Mutex && (n.Holds(s) == n.Holds(otherS) || n.Ledger(s) == n.Ledger(otherS) ||
			n.Exists(s) == n.Exists(otherS)) {
			t.Errorf("slots %d and %d of %v share a queue", s, otherS, n)
		}
	})
}
