package tree

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
)

// freezePasses bounds how often a tree is looked through for processes that are
// not stopped yet. One that is stopped forks no more, so that two or three will
// do for most; the bounds are for one that forks faster than it can be read.
// Nothing else is handled meanwhile, so the passes also end with freezeTime, and
// when the tree has to be killed. What goes on then is stopped a moment later.
const (
	freezePasses = 200
	freezeTime   = time.Second
	freezePause  = 100 * time.Millisecond
)

// frozen is what of the tree was stopped by STOP.
type frozen struct {
	stopped map[int]procfs.Process // by number; what was stopped before by somebody else is not in it
	again   <-chan time.Time       // when to go on stopping; nil: all of it is stopped
	held    []syscall.Signal       // keyboard stops for Group that wait for the thaw
}

func (f *frozen) has(p procfs.Process) bool {
	known, found := f.stopped[p.Pid]
	return found && known.Start == p.Start
}

// IsFrozen reports whether the tree is frozen.
func (t *Tree) IsFrozen() bool { return t.frozen != nil }

// Freeze stops every process of the tree until Thaw. A control group is stopped in
// one step, which its members cannot notice; STOP, for what is in none, a parent
// can see. What goes on after it is to be stopped by FreezeRest.
func (t *Tree) Freeze() {
	if t.frozen != nil {
		return
	}
	t.frozen = &frozen{stopped: make(map[int]procfs.Process)}
	t.Cgroup.freeze(true)
	t.FreezeRest()
}

// FreezeAgain receives when it is time for FreezeRest.
func (t *Tree) FreezeAgain() <-chan time.Time {
	if t.frozen == nil {
		return nil
	}
	return t.frozen.again
}

// FreezeRest stops what goes on of a frozen tree.
func (t *Tree) FreezeRest() {
	t.frozen.again = nil
	// Two passes in a row that find nothing but what is stopped: one can miss a
	// process that lost its parent while the table was read.
	end := time.Now().Add(freezeTime)
	over := func() bool { return t.overdue() || !time.Now().Before(end) }
	quiet, moving := 0, false
	for passes := 0; passes < freezePasses && quiet < 2 && !over(); passes++ {
		found, awaited := t.stopRest(over)
		moving = found
		switch {
		case found:
			quiet = 0
		case awaited: // it may be just forking
			quiet = 0
			time.Sleep(firstPause)
		default:
			quiet++
		}
	}
	if moving || quiet < 2 && !time.Now().Before(end) { // not for one that is only slow to stop
		t.frozen.again = time.After(freezePause)
	}
}

// stopRest sends STOP to what is neither stopped nor in the frozen control
// group. It reports whether it found anything new, and whether there is something
// that was sent STOP and has not stopped. It ends early when over says so.
func (t *Tree) stopRest(over func() bool) (found, awaited bool) {
	all, complete := t.Env.Look(over)
	found = !complete
	for _, p := range all {
		if over() {
			return true, false
		}
		if p.State == 'T' || p.Dead() || t.Cgroup.stops(p.Pid) {
			continue
		}
		if t.frozen.has(p) {
			awaited = awaited || !p.Hidden // whose state is not known
			continue
		}
		t.frozen.stopped[p.Pid] = p
		_ = t.Env.Signal(p, unix.SIGSTOP)
		found = true
	}
	return found, awaited
}

// HoldBack has a keyboard stop for Group wait for the thaw, whose CONT would discard
// it (signal(7)), and reports whether it does: not where the tree is frozen without
// STOP.
func (t *Tree) HoldBack(sig syscall.Signal) bool {
	if t.frozen == nil || t.Cgroup.isFrozen() {
		return false
	}
	t.frozen.held = append(t.frozen.held, sig)
	return true
}

// ContinueAtThaw is for a CONT to Group while the tree is frozen: it would undo
// what STOP has done. What the group has stopped by itself goes on at the thaw, and
// what HoldBack has kept is forgotten.
func (t *Tree) ContinueAtThaw() {
	t.frozen.held = nil
	for _, p := range t.Env.Descendants(t.Overdue) {
		if p.Group == t.Group {
			t.frozen.stopped[p.Pid] = p
		}
	}
}

// Thaw continues what Freeze has stopped. It does nothing if the tree is not frozen.
func (t *Tree) Thaw() {
	if t.frozen == nil {
		return
	}
	t.Cgroup.freeze(false)
	for _, p := range t.frozen.stopped {
		_ = t.Env.Signal(p, unix.SIGCONT)
	}
	if t.Led {
		for _, sig := range t.frozen.held {
			_ = unix.Kill(-t.Group, sig)
		}
	}
	t.frozen = nil
}
