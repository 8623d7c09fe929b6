package guard

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/supervisor"
)

// Between two passes over a tree that is being killed. A kill takes effect within
// microseconds. Where nothing ends any more there is one that cannot be killed:
// it waits in the kernel, or belongs to somebody else, and is looked at every
// few seconds.
const (
	firstPause   = time.Millisecond
	busyPause    = 50 * time.Millisecond
	longestPause = supervisor.KillingInterval
)

// tableShare is the inverse of how much of its time a killer spends on reading all
// of /proc, which takes half a second beside 25,000 processes.
const tableShare = 10

// killer kills everything below this process, pass by pass. Its zero value has
// made none.
type killer struct {
	spare map[int]uint64 // children to be left out, with what is below them
	group int            // a process group that has no strangers in it; 0: none is known

	seen   map[int]uint64 // what the last pass has found
	passes int
	grows  bool          // the last pass has killed something new
	pause  time.Duration // before the next one
	rested time.Time     // when the table may be read again
}

// killed is what one pass has found.
type killed struct {
	found   int            // processes, the dead that are not reaped among them
	sent    map[int]uint64 // those that took the signal, with their start
	refused int            // one that may not be signalled, 0 if there is none
	groups  map[int]bool   // those that were killed as a whole
}

func newKilled() *killed { return &killed{sent: make(map[int]uint64), groups: make(map[int]bool)} }

// pass sends KILL once to what it finds. It reads all of /proc only where the walk
// down from this process cannot know everything, and where passes find ever more.
func (k *killer) pass() *killed {
	all := newKilled()
	w := k.walk(all)
	k.grows = false
	for pid, start := range all.sent {
		if known, seen := k.seen[pid]; !seen || known != start {
			k.grows = true
		}
	}
	k.seen = w.seen
	k.passes++
	rested := !time.Now().Before(k.rested)
	if w.blind || rested && (w.partial || k.grows && k.passes > 1) {
		began := time.Now()
		_ = k.killTable(all) // a pass follows
		k.rested = began.Add(tableShare * time.Since(began))
	}
	return all
}

// walk kills while it walks down, so that KILL is not late beside many processes.
// A group has no strangers in it if it is in another session than this process:
// somebody below has made that session, and who is in it descends from that one.
// Where processes fall to this one that were never below it, as to PID 1, or
// children are spared, nothing is concluded from that.
func (k *killer) walk(all *killed) *walk {
	session, err := unix.Getsid(0)
	telling := err == nil && os.Getpid() != 1 && len(k.spare) == 0
	return walkDown(k.spare, nil, func(p process) {
		switch {
		case p.hidden, all.groups[p.group]:
		case p.group == k.group, telling && p.session != session && unmoved(p):
			all.killGroup(p.group)
		}
		all.kill(p)
	})
}

// unmoved reports whether a process is where it was said to be. It may have moved
// to a session of its own in between its group and its session, or ended.
func unmoved(p process) bool {
	now, err := readStat(p.pid)
	return err == nil && now.start == p.start && now.group == p.group && now.session == p.session
}

// killTable kills what the whole table says is below this process, beginning with the
// groups that consist of descendants alone.
func (k *killer) killTable(all *killed) error {
	table, err := processTable()
	if err != nil {
		return err
	}
	found := table.below(os.Getpid(), k.spare)
	inside := make(map[int]bool, len(found))
	whole := make(map[int]bool)
	for _, p := range found {
		inside[p.pid], whole[p.group] = true, true
	}
	for _, p := range table {
		if !inside[p.pid] {
			delete(whole, p.group)
		}
	}
	for group := range whole {
		all.killGroup(group)
	}
	for _, p := range found {
		all.kill(p)
	}
	return nil
}

// killGroup kills a process group that has no strangers in it. The kernel does
// that in one step, against which a member cannot fork (fork(2) fails with a
// signal pending): that is what ends a command that forks without end. The
// group's number was in use a moment ago and cannot have come around since.
func (all *killed) killGroup(group int) {
	if group > 1 && group != unix.Getpgrp() {
		all.groups[group] = true
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}

func (all *killed) kill(p process) {
	all.found++
	switch err := signalProcess(p, unix.SIGKILL); {
	case err == nil:
		all.sent[p.pid] = p.start
	case errors.Is(err, unix.EPERM):
		all.refused = p.pid
	}
}

// rest returns how long to wait before the next pass.
func (k *killer) rest(progress bool) time.Duration {
	longest := longestPause
	if progress || k.grows {
		longest = busyPause
	}
	k.pause = max(firstPause, min(2*k.pause, longest))
	return k.pause
}

// slow reports whether the passes have become rare.
func (k *killer) slow() bool { return k.pause > busyPause }

// hurry has passes follow each other quickly again: something has ended.
func (k *killer) hurry() { k.pause = 0 }
