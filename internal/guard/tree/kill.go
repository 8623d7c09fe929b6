package tree

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
)

// MaxPause is how long at most a tree that does not end is left alone between
// two passes.
const MaxPause = 2 * time.Second

// Between two passes over a tree that is being killed. A kill takes effect within
// microseconds. Where nothing ends any more there is a process that cannot be killed:
// it waits in the kernel, or belongs to another user, and is looked at every
// few seconds.
const (
	firstPause = time.Millisecond
	busyPause  = 50 * time.Millisecond
)

// tableShare is the inverse of how much of its time a tree's killing spends on
// reading all of /proc, which takes half a second beside 25,000 processes.
const tableShare = 10

// killing is what is known between passes. Its zero value has made none.
type killing struct {
	seen     procfs.Set // what the last pass has found
	passes   int
	grows    bool             // the last pass has killed something new
	progress bool             // something has ended since the last pass
	pause    time.Duration    // before the next pass
	next     <-chan time.Time // the next pass
	survivor int              // see Tree.Survivor
	readAt   time.Time        // when the table may be read again
}

// pass is one look for what is to be killed, and what it has found.
type pass struct {
	env     *procfs.Env
	found   int          // processes, the dead that are not reaped among them
	sent    procfs.Set   // those that took the signal
	refused int          // one that may not be signalled, 0 if there is none
	groups  map[int]bool // those that were killed as a whole
}

func (t *Tree) newPass() *pass {
	return &pass{env: t.Env, sent: make(procfs.Set), groups: make(map[int]bool)}
}

// Kill sends KILL once to what there is of the tree, and sets when to do so again:
// a process may be in the middle of forking. It returns one that may not be
// signalled, 0 if there is none.
func (t *Tree) Kill() (refused int) {
	if t.Namespace {
		_ = unix.Kill(-1, unix.SIGKILL) // everything in the namespace but this process
	}
	t.Cgroup.kill()
	if t.Led {
		_ = unix.Kill(-t.Group, unix.SIGKILL) // with what it is just forking
	}
	this := t.killOnce()
	t.killing.next = time.After(t.killing.rest())
	return this.refused
}

// KillAgain receives when it is time for the next Kill.
func (t *Tree) KillAgain() <-chan time.Time { return t.killing.next }

// NoteEnd is for a process that has ended while the tree is killed. What was below
// it has fallen to this process, which the next pass does not let wait.
func (t *Tree) NoteEnd() {
	k := &t.killing
	k.progress = true
	if k.slow() {
		k.pause = 0
		k.next = time.After(k.rest())
	}
}

// Survivor returns a process that has had KILL for seconds and lives, 0 if there is none.
func (t *Tree) Survivor() int { return t.killing.survivor }

// OnlyDead returns a process of a tree that has not changed for a while and in which
// nothing lives (procfs.Env.AllDead), 0 if something may. Who asks is to reap then: what
// that takes nobody keeps.
func (t *Tree) OnlyDead() (one int) {
	if t.killing.slow() {
		if pid, dead := t.Env.AllDead(os.Getpid(), t.Except); dead {
			return pid
		}
	}
	return 0
}

// NoneLeft reports whether nothing is left to kill but what is in Except. One look
// can miss what forked after /proc was listed, and was gone when it was its turn:
// it counts only if nothing was reaped meanwhile, which is for the caller to know.
func (t *Tree) NoneLeft() bool {
	if len(t.killing.seen) > 0 {
		return false
	}
	this := t.newPass()
	return t.killTable(this) == nil && this.found == 0
}

// killOnce reads all of /proc only where the walk down from this process cannot know
// everything, and where passes find ever more.
func (t *Tree) killOnce() *pass {
	k := &t.killing
	this := t.newPass()
	w := t.killWalk(this)
	k.grows, k.survivor = false, 0
	for pid, start := range this.sent {
		known := k.seen.Has(procfs.Process{Pid: pid, Start: start})
		k.grows = k.grows || !known
		if known && k.pause >= MaxPause {
			k.survivor = pid
		}
	}
	k.seen = w.Seen
	k.passes++
	mayRead := !time.Now().Before(k.readAt)
	if w.NoLists || mayRead && (w.Partial || k.grows && k.passes > 1) {
		began := time.Now()
		_ = t.killTable(this) // a pass follows
		k.readAt = began.Add(tableShare * time.Since(began))
	}
	return this
}

// killWalk kills while it walks down, so that KILL is not late beside many processes.
// A group has no strangers in it if it is in another session than this process:
// a process below has made that session, and what is in it descends from that one.
// Where processes fall to this one that were never below it, as to PID 1, or
// children are left out, nothing is concluded from that.
func (t *Tree) killWalk(this *pass) *procfs.Walk {
	session, err := unix.Getsid(0)
	sessionsTell := err == nil && os.Getpid() != 1 && len(t.Except) == 0
	return t.Env.Walk(t.Except, nil, func(p procfs.Process) {
		switch {
		case p.Hidden, this.groups[p.Group]:
		case p.Group == t.Group, sessionsTell && p.Session != session && isUnmoved(p):
			this.killGroup(p.Group)
		}
		this.kill(p)
	})
}

// isUnmoved reports whether a process is where it was said to be. It may have moved
// to a session of its own in between its group and its session, or ended.
func isUnmoved(p procfs.Process) bool {
	now, err := procfs.Read(p.Pid)
	return err == nil && now.Start == p.Start && now.Group == p.Group && now.Session == p.Session
}

// killTable kills what the whole table says is below this process, beginning with the
// groups that consist of descendants alone.
func (t *Tree) killTable(this *pass) error {
	table, err := t.Env.Table()
	if err != nil {
		return err
	}
	found := table.Below(os.Getpid(), t.Except)
	inside := make(map[int]bool, len(found))
	whole := make(map[int]bool)
	for _, p := range found {
		inside[p.Pid], whole[p.Group] = true, true
	}
	for _, p := range table {
		if !inside[p.Pid] {
			delete(whole, p.Group)
		}
	}
	for group := range whole {
		this.killGroup(group)
	}
	for _, p := range found {
		this.kill(p)
	}
	return nil
}

// killGroup kills a process group that has no strangers in it. The kernel does
// that in one step, against which a member cannot fork (fork(2) fails with a
// signal pending): that is what ends a command that forks without end. The
// group's number was in use a moment ago and cannot have come around since.
func (p *pass) killGroup(group int) {
	if group > 1 && group != unix.Getpgrp() {
		p.groups[group] = true
		_ = unix.Kill(-group, unix.SIGKILL)
	}
}

func (p *pass) kill(process procfs.Process) {
	p.found++
	switch err := p.env.Signal(process, unix.SIGKILL); {
	case err == nil:
		p.sent.Add(process)
	case errors.Is(err, unix.EPERM):
		p.refused = process.Pid
	}
}

// rest returns how long to wait before the next pass.
func (k *killing) rest() time.Duration {
	longest := MaxPause
	if k.progress || k.grows {
		longest = busyPause
	}
	k.progress = false
	k.pause = max(firstPause, min(2*k.pause, longest))
	return k.pause
}

// slow reports whether the passes have become rare.
func (k *killing) slow() bool { return k.pause > busyPause }
