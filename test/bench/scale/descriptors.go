package main

import (
	"fmt"
	"syscall"
)

// needed returns how many descriptors this process or the broker it starts will
// have open at once. A contender has two connections; each through the relay
// takes two more here.
func (o options) needed() uint64 {
	const rest = 500 // files, databases, listeners, and what is just closing
	most := 0
	for name, connections := range map[string]int{
		"waiters":  2*o.sizes.Waiters + 6*o.sizes.Counted,
		"locks":    4 * o.sizes.Locks,
		"slots":    2*o.sizes.Slots + 6,
		"fairness": 2 * o.sizes.Contenders,
	} {
		if o.runs(name) {
			most = max(most, connections)
		}
	}
	return uint64(most + rest)
}

// raiseDescriptors permits this process, and the broker that inherits it, to
// have so many descriptors open.
func raiseDescriptors(needed uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot read the limit of descriptors: %w", err)
	}
	permitted := limit.Max
	limit.Cur = max(limit.Cur, min(needed, permitted))
	if needed > permitted {
		limit.Cur, limit.Max = needed, needed // root may
	}
	// Also where nothing changes: Go gives children the limit that it found at
	// its own start, unless the program has set one.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d descriptors are needed and %d permitted (%w); run `ulimit -n %d` as root first, or choose smaller -waiters, -locks and -slots",
			needed, permitted, err, needed)
	}
	return nil
}
