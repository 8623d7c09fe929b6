package guard

import (
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// freezePasses bounds how often a tree is looked through for processes that are
// not stopped yet. One that is stopped forks no more, so that two or three will
// do for most; the bounds are for one that forks faster than it can be read.
// Nothing else is heeded meanwhile, so the passes also end with freezeTime, and
// when the tree has to be killed. What goes on then is stopped a moment later.
const (
	freezePasses = 200
	freezeTime   = time.Second
	freezePause  = 100 * time.Millisecond
)

// ice is what of a tree the guard has stopped by STOP. Its zero value is a tree
// that goes on.
type ice struct {
	frozen  bool
	stopped map[int]process  // by number; what was stopped before by somebody else is not in it
	again   <-chan time.Time // when to go on stopping; nil: all of it is stopped
	stops   []syscall.Signal // that came for the process group, for after the thaw
}

// freeze stops every process of the tree. A control group is stopped in one
// step, which its members cannot notice; STOP, for what is in none, a parent
// can see.
func (h *helper) freeze() {
	if !h.started || h.killing || h.dead || h.ice.frozen {
		return
	}
	h.ice = ice{frozen: true, stopped: make(map[int]process)}
	h.cgroup.freeze(true)
	h.freezeRest()
}

// freezeRest stops what goes on of a tree that is to be frozen.
func (h *helper) freezeRest() {
	h.ice.again = nil
	// Two passes in a row that find nothing but what is stopped: one can miss a
	// process that lost its parent while the table was read.
	end := time.Now().Add(freezeTime)
	enough := func() bool { return h.deadline.Passed() || !time.Now().Before(end) }
	calm, moving := 0, false
	for passes := 0; passes < freezePasses && calm < 2 && !enough(); passes++ {
		found, awaited := h.stopRest(enough)
		moving = found
		switch {
		case found:
			calm = 0
		case awaited: // it may be just forking
			calm = 0
			time.Sleep(firstPause)
		default:
			calm++
		}
	}
	if moving || calm < 2 && !time.Now().Before(end) { // not for one that is only slow to stop
		h.ice.again = time.After(freezePause)
	}
}

// stopRest sends STOP to what is neither stopped nor in the frozen control
// group. It reports whether it found anything new, and whether there is something
// that was sent STOP and has not stopped. It ends early when enough says so.
func (h *helper) stopRest(enough func() bool) (found, awaited bool) {
	tree, calm := look(enough)
	found = !calm
	for _, p := range tree {
		if enough() {
			return true, false
		}
		if p.state == 'T' || p.dead() || h.cgroup.has(p.pid) {
			continue
		}
		if known, sent := h.ice.stopped[p.pid]; sent && known.start == p.start {
			awaited = awaited || !p.hidden // whose state is not known
			continue
		}
		h.ice.stopped[p.pid] = p
		_ = signalProcess(p, unix.SIGSTOP)
		found = true
	}
	return found, awaited
}

// thaw continues what freeze has stopped.
func (h *helper) thaw() {
	if !h.ice.frozen {
		return
	}
	h.cgroup.freeze(false)
	for _, p := range h.ice.stopped {
		_ = signalProcess(p, unix.SIGCONT)
	}
	if h.first != 0 {
		for _, sig := range h.ice.stops { // a CONT discards those that are pending (signal(7))
			_ = unix.Kill(-h.first, sig)
		}
	}
	h.ice = ice{}
}

// continueLater is for a CONT to the process group, while frozen: it would
// undo what STOP has done. What the group has stopped by itself goes on at the
// thaw.
func (h *helper) continueLater(group int) {
	for _, p := range slices.DeleteFunc(descendants(h.deadline.Passed), func(p process) bool { return p.group != group }) {
		h.ice.stopped[p.pid] = p
	}
}
