package guard

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"berth/internal/guard/parent"
	"berth/internal/guard/tree"
)

// killOrphans kills what is below this process and is no guard's, until nothing
// of it is left: the tree of a guard that died has fallen to us, with its control
// group. It goes on for as long as there is one that may not be signalled, which
// refused is told once.
func (h *Host) killOrphans(cgroup string, refused func(pid int)) {
	children := make(chan os.Signal, 1) // the reaper takes what has ended
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	orphans := tree.Tree{Env: h.env.procfs, Cgroup: tree.LeftCgroup(cgroup)}
	defer orphans.Close()
	for {
		except, before := h.notOrphans()
		orphans.Except = except
		if pid := orphans.Kill(); pid != 0 && refused != nil {
			refused(pid)
			refused = nil
		}
		if h.noneLeft(&orphans, before) {
			return
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
	_, after := h.notOrphans()
	return before == after
}

// removeCgroup removes the control group of a guard that has started nothing, which
// does so itself unless it was killed.
func removeCgroup(path string) {
	left := tree.Tree{Cgroup: tree.LeftCgroup(path)}
	left.Close()
}
