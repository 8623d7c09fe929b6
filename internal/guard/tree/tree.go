// Package tree signals, freezes and kills everything below this process as one [Tree]:
//
//	t := &tree.Tree{Env: procfs.Kernel()}
//	t.Kill()                  // the first pass
//	for parent.HasChildren() {
//		select {
//		case <-children:  // SIGCHLD; somebody reaps
//			t.NoteEnd()
//		case <-t.KillAgain():
//			t.Kill()
//		}
//	}
//
// It knows how a tree is reached as a whole: through its control group, its process groups, and package [procfs]. It
// must not know why, nor reap: when the tree is dead is for its owner to say.
package tree

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
	"berth/signals"
)

// Tree is every process below this one. One goroutine owns it. Its zero value, with
// an Env, is a tree of which nothing is known.
type Tree struct {
	// Env is how the tree is found.
	Env *procfs.Env
	// Except are children that are not to be killed, nor what is below them.
	Except procfs.Set
	// Cgroup has the tree in it, as far as it has not left; nil: there is none.
	Cgroup *Cgroup
	// Overdue reports whether the tree has to be killed: to signal or to freeze it ends
	// early then, because to read of thousands of processes and threads takes longer than
	// there is. nil never does.
	Overdue func() bool
	// Namespace: this process is the first of a PID namespace, so that everything in
	// it is the tree.
	Namespace bool
	// Group is a process group that has no strangers in it, 0: none is known. Its
	// number stays in use until the last of it has ended.
	Group int
	// Led: the leader of Group is not reaped, so the number is certain.
	Led bool

	killing killing
	frozen  *frozen // nil: the tree goes on
}

// Signal sends the signal to the processes of the tree that it is for, and continues
// those of the whole tree that are stopped: they receive nothing else, and others may wait
// for them. What is not stopped gets no CONT: it may have a handler for it. Signal returns
// the first process that may not be signalled, 0 if there is none.
func (t *Tree) Signal(sig syscall.Signal, isFor func(pid int) bool) (refused int) {
	for _, p := range t.Env.Descendants(t.Overdue) {
		if t.overdue() {
			break
		}
		if isFor(p.Pid) {
			if err := t.Env.Signal(p, sig); refused == 0 && errors.Is(err, unix.EPERM) {
				refused = p.Pid
			}
		}
		if t.needsCONT(p, sig) {
			_ = t.Env.Signal(p, unix.SIGCONT)
		}
	}
	return refused
}

// needsCONT reports whether the process gets no signal, such as this one, before it is
// continued. Of one that /proc hides this is not known, and a CONT
// too many does less harm than a signal that is not received. What Freeze has
// stopped goes on at the thaw.
func (t *Tree) needsCONT(p procfs.Process, sig syscall.Signal) bool {
	if sig == unix.SIGCONT || sig == unix.SIGSTOP || slices.Contains(signals.KeyboardStops(), sig) {
		return false
	}
	if t.frozen != nil && t.frozen.has(p) {
		return false
	}
	return p.Hidden || t.Env.IsStopped(p.Pid)
}

func (t *Tree) overdue() bool { return t.Overdue != nil && t.Overdue() }

// Close removes the control group, which has to be empty by now.
func (t *Tree) Close() {
	t.Cgroup.remove()
	t.Cgroup = nil
}
