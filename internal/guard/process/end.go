package process

import (
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
)

// unlock lets a waiter have the slot before the supervisor is told, if no other run follows in it.
// It is called where nothing of the tree is left, and before that is told: once the supervisor
// knows, nothing is unlocked any more.
func (g *guard) unlock() {
	if !g.order.Last {
		return
	}
	for _, file := range g.order.Files {
		fd := int(file.Fd())
		_ = unix.Flock(fd, unix.LOCK_UN)
		_ = unix.Ftruncate(fd, 0) // tells who watches it (IN_MODIFY); fails where it is open for reading
	}
}

// awaitSupervisor waits until the supervisor, which can give the slot back now, has taken the
// will back, or is gone: it may die beside its command, with the news of that end unread. It
// need not hurry for one that is stopped. One that has no room for that news learns it by the
// end of this process.
func (g *guard) awaitSupervisor(orders <-chan wire.Order) {
	for g.will != nil && !g.willing && !g.supervisor.unresponsive {
		o, open := <-orders
		if !open {
			g.handOverWill()
			return
		}
		if o.Op == wire.OpWill {
			g.will = o.Will
		}
	}
}

// lockPause is how long a lock that could not be waited for is left alone.
const lockPause = 10 * time.Millisecond

// awaitBeside waits until nothing runs beside the command, before its will is executed. Nothing begins to after that.
func (g *guard) awaitBeside() {
	if g.beside != nil {
		for unix.Flock(int(g.beside.Fd()), unix.LOCK_EX) != nil { // EINTR, or the kernel has no memory for it
			time.Sleep(lockPause)
		}
	}
}

// lessNice is by how much an ending guard gives way. With 19 more a busy host would let berth,
// which waits for its guard, end a tenth of a second later.
const lessNice = 4

// giveWay has all threads of this process, which has a process group of its own, give way to
// others. A dozen threads that wake up to end would otherwise take the processor from the
// berth that begins in the slot.
func giveWay() {
	if now, err := unix.Getpriority(unix.PRIO_PGRP, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, 0, 20-now+lessNice) // the call returns 20 less the nice value
	}
}
