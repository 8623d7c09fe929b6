package parent

import (
	"runtime"
	"sync"
)

// reservedThreads is how many threads a process of berth has made before it needs
// them. Each costs a tenth of a millisecond. Beside a command that has filled the limit,
// 3 were not enough in every run, and 5 in each of 250.
const reservedThreads = 6

// ReserveThreads makes the threads that this process may come to need. Go's
// runtime ends a process that cannot make one, and the command can see to that:
// it fills the limit on processes (RLIMIT_NPROC, pids.max), which threads count
// for too. A signal that wakes supervisor and guard at once would then end both, and
// leave the command without either. A thread that was made stays, and is used
// again.
func ReserveThreads() {
	var met, done sync.WaitGroup
	met.Add(reservedThreads)
	for range reservedThreads {
		done.Go(func() {
			runtime.LockOSThread() // so that each of them has one
			defer runtime.UnlockOSThread()
			met.Done()
			met.Wait()
		})
	}
	done.Wait()
}
