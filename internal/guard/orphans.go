package guard

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"berth/internal/guard/parent"
	"berth/internal/guard/procfs"
	"berth/internal/guard/tree"
	"berth/internal/guard/wire"
)

// killOrphans kills what is below this process and is no guard's, until nothing
// of it is left: the tree of a guard that died has fallen to us, with its control
// group. It goes on for as long as there is one that may not be signalled, or that KILL
// does not end, of which it tells once each.
func (h *Host) killOrphans(cgroup string, tell func(wire.Event)) {
	children := make(chan os.Signal, 1) // the reaper takes what has ended
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	orphans := tree.Tree{Env: h.env.procfs, Cgroup: tree.LeftCgroup(cgroup)}
	defer orphans.Close()
	var refusalTold, survivorTold bool
	for {
		except, before := h.notOrphans()
		orphans.Except = except
		if pid := orphans.Kill(); pid != 0 && !refusalTold {
			refusalTold = true
			tell(wire.Event{Kind: wire.Refused, Pid: pid})
		}
		if pid := orphans.Survivor(); pid != 0 && !survivorTold {
			survivorTold = true
			tell(lasting(pid, true))
		}
		if h.noneLeft(&orphans, before) {
			return
		}
		if pid := orphans.OnlyDead(); pid != 0 {
			if h.reap(); h.reapedSince(before) == 0 {
				tell(lasting(pid, false))
				return
			}
		}
		for waiting := true; waiting; {
			select {
			case <-orphans.KillAgain():
				waiting = false
			case <-children:
				orphans.NoteEnd()
			}
		}
	}
}

// lasting is the news of a process that is there seconds after KILL.
func lasting(pid int, lives bool) wire.Event {
	return wire.Event{Kind: wire.Lasting, Pid: pid, Left: lives, About: procfs.Describe(pid)}
}

// noneLeft reports whether nothing is left to kill. The kernel knows whether
// there is a child at all. Beside those to be left alone, a look that finds nothing
// counts if no child was reaped since before: one could have forked after /proc was
// listed, and have been gone when it was its turn.
func (h *Host) noneLeft(orphans *tree.Tree, before uint64) bool {
	if len(orphans.Except) == 0 {
		return !parent.HasChildren()
	}
	if !orphans.NoneLeft() {
		return false
	}
	return h.reapedSince(before) == 0
}

// reapedSince returns how many children have been reaped since there were so many.
func (h *Host) reapedSince(before uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reaped - before
}

// removeCgroup removes the control group of a guard that has started nothing, which
// does so itself unless it was killed.
func removeCgroup(path string) {
	left := tree.Tree{Cgroup: tree.LeftCgroup(path)}
	left.Close()
}
