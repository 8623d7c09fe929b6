package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"berth/lock"
)

var exclusion = []behaviour{
	{"a mutex is held by one of many contenders at a time", func(e *env) {
		contend(e, e.fresh(lock.Mutex), 1)
	}},
	{"a semaphore is held by as many contenders as it has slots", func(e *env) {
		contend(e, e.sized(3), 3)
	}},
	{"a persistent mutex is held by one of many contenders at a time", func(e *env) {
		id := e.fresh(lock.PersistentMutex)
		e.resize(id, 1)
		contend(e, id, 1)
	}},
	{"a persistent mutex is held once where a semaphore of its name has more slots", func(e *env) {
		id := e.fresh(lock.Semaphore)
		e.resize(id, 3)
		id.Kind = lock.PersistentMutex
		if e.h.Apart {
			e.refused(e.contender(id), lock.ErrAbsent)
			return
		}
		_, held := e.holder(id)
		if held.Slot() != 1 {
			e.Fatalf("the slot of a persistent mutex is %d, want 1", held.Slot())
		}
		next := e.waits(id, lock.ErrFull)
		e.release(held)
		e.obtained(next, 1)
	}},
	{"every slot is held once, and numbers are 1 to the number of slots", slotsAreUnique},
	{"a full lock and an absent one are told apart", func(e *env) {
		id := e.sized(1)
		_, held := e.holder(id)
		other := e.contender(id)
		e.refused(other, lock.ErrFull)
		e.resize(id, 0)
		e.refused(other, lock.ErrAbsent)
		e.release(held)
		e.refused(other, lock.ErrAbsent)
		e.refused(e.contender(e.fresh(e.h.Kind)), lock.ErrAbsent)
		e.refused(e.contender(e.fresh(lock.PersistentMutex)), lock.ErrAbsent)
	}},
	{"a mutex needs no administration", func(e *env) {
		id := e.fresh(lock.Mutex)
		_, held := e.holder(id)
		if held.Slot() != 1 {
			e.Fatalf("the slot of a mutex is %d, want 1", held.Slot())
		}
		e.verify(held)
		e.refused(e.contender(id), lock.ErrFull)
	}},
	{"a contender can hold, release and hold again", func(e *env) {
		l := e.contender(e.fresh(lock.Mutex))
		for range 3 {
			held := e.obtain(l)
			e.verify(held)
			e.release(held)
		}
	}},
	{"locks with different names are different locks", namesDiffer},
	{"an id that names nothing is refused", func(e *env) {
		for _, id := range []lock.ID{{}, {Kind: lock.Mutex}, {Name: "x"}, {Kind: "other", Name: "x"}} {
			l := e.h.Open(e.T).Lock(id)
			if err := l.Connect(e.ctx); err == nil {
				e.Errorf("connecting to %q %q succeeded", id.Kind, id.Name)
			}
			_ = l.Close()
		}
	}},
}

// contend lets many contenders take turns and counts who holds what at once.
func contend(e *env, id lock.ID, slots int) {
	const contenders, rounds = 8, 5
	var (
		mu     sync.Mutex
		inside = map[int]int{} // by slot
	)
	turn := func(l lock.Lock) error {
		held, err := e.h.obtain(e.ctx, l)
		if err != nil {
			return err
		}
		slot := held.Slot()
		count := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			inside[slot] += n
			return inside[slot]
		}
		if n := count(1); n != 1 || slot < 1 || slot > slots {
			err = fmt.Errorf("slot %d of 1..%d is held by %d", slot, slots, n)
		}
		err = errors.Join(err, held.Verify(e.ctx))
		count(-1)
		return errors.Join(err, held.Release(e.ctx))
	}
	var ends []<-chan error
	for range contenders {
		l := e.contender(id)
		ends = append(ends, later(func() error {
			for range rounds {
				if err := turn(l); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, end := range ends {
		if err := e.ended("a contender", end); err != nil {
			e.Error(err)
		}
	}
}

func slotsAreUnique(e *env) {
	const slots = 4
	id := e.sized(slots)
	got := map[int]bool{}
	for range slots {
		_, held := e.holder(id)
		if n := held.Slot(); n < 1 || n > slots || got[n] {
			e.Fatalf("obtained slot %d beside %v of 1..%d", n, got, slots)
		}
		got[held.Slot()] = true
	}
	e.refused(e.contender(id), lock.ErrFull)
}

// namesDiffer holds one mutex of each name at once.
func namesDiffer(e *env) {
	base := e.fresh(lock.Mutex).Name
	long := base + strings.Repeat("/", lock.MaxName-1-len(base))
	for _, name := range []string{
		base, "." + base, ".." + base, "./" + base, "../" + base, base + "/x", base + "%2Fx", base + "%2fx",
		base + ".slot", base + " x", base + "*#", base + "Ünï", "-" + base, long + "1", long + "2",
	} {
		_, held := e.holder(lock.ID{Kind: lock.Mutex, Name: name})
		e.verify(held)
	}
}
