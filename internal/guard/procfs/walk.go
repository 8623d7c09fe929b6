package procfs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Walk is one way down from this process, through the lists that the kernel keeps
// of each thread's children (proc_tid_children(5)). Beside any number of other
// processes it reads of none but the tree's, while to read all of /proc takes
// half a second beside 25,000.
//
// A list can leave a process out while others of it end, and what loses its
// parent falls to this process, whose list was read first. So a caller that wants a tree
// dead walks again until nothing is left, and one that wants it whole walks until two
// walks find the same.
type Walk struct {
	// Seen is what was found.
	Seen Set
	// Partial: there is a process into which this one may not look. The whole
	// table can tell more.
	Partial bool
	// NoLists: the kernel was built without the lists (CONFIG_PROC_CHILDREN), so
	// that only the table can tell anything. It is partial too.
	NoLists bool

	env     *Env
	except  Set         // children of this process to be left out, with what is below them
	enough  func() bool // breaks the walk off, even among the threads of one process; nil does not
	changed bool        // a process has ended, or fallen to another parent, meanwhile, or the walk was broken off
}

// manyThreads is how many threads of one process take long to be read, a
// millisecond for every hundred. It is visited first then.
const manyThreads = 50

// Walk calls visit for what is below this process, from the top down, but for the
// children in except and what is below them. What is below a process has been noted
// when it is visited, unless that one has many threads: after its end it is
// somewhere else. The walk ends early when enough says so; nil never does.
func (e *Env) Walk(except Set, enough func() bool, visit func(p Process)) *Walk {
	w := &Walk{env: e, except: except, Seen: make(Set), enough: enough}
	pending := w.below(Process{Pid: os.Getpid()})
	for len(pending) > 0 && !w.over() {
		next := pending[0]
		first := next.Threads > manyThreads
		if first {
			visit(next)
		}
		pending = append(pending[1:], w.below(next)...)
		if !first {
			visit(next)
		}
	}
	return w
}

// Look returns every process below this one, and whether it can have missed none
// but what was forked meanwhile. What is dead and not reaped is among them. It ends
// early when enough says so.
func (e *Env) Look(enough func() bool) (found []Process, complete bool) {
	w := e.Walk(nil, enough, func(p Process) { found = append(found, p) })
	if !w.Partial || w.over() {
		return found, !w.changed
	}
	table, err := e.Table()
	if err != nil {
		return found, false
	}
	for _, p := range table.Below(os.Getpid(), nil) {
		if !w.Seen.Has(p) {
			found = append(found, p)
		}
	}
	return found, true
}

// A tree that does not come to rest is looked through twice, and until that time is
// over, but not more often than that.
const (
	maxLooks  = 5
	looksTime = 100 * time.Millisecond
)

// Descendants returns every process below this one, each once: all that two looks
// in a row find. Nothing is done to them before that, so that what one of
// them forks when it is told to end is not among them. It ends early when enough
// says so.
func (e *Env) Descendants(enough func() bool) (all []Process) {
	known := make(Set)
	over := time.Now().Add(looksTime)
	for n := 0; n < maxLooks && (n < 2 || time.Now().Before(over)); n++ {
		found, same := e.Look(enough)
		for _, p := range found {
			if !known.Has(p) {
				known.Add(p)
				all, same = append(all, p), false
			}
		}
		if same {
			break
		}
	}
	return all
}

// Children returns the numbers of a process's children. It reads all of /proc where
// the kernel does not list them.
func (e *Env) Children(parent int) (pids []int) {
	if pids, err := (&Walk{env: e}).children(parent); err == nil {
		return pids
	}
	table, _ := e.Table() // nobody is found if it fails
	for _, p := range table {
		if p.Parent == parent {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// over reports whether the walk is to be broken off, which is a change.
func (w *Walk) over() bool {
	if w.enough == nil || !w.enough() {
		return false
	}
	w.changed = true
	return true
}

// below returns the children of a process that are new. By the time that they
// are read, numbers may be another process's: a child has to say that it is one,
// and the process to be still there.
func (w *Walk) below(parent Process) (found []Process) {
	if parent.Hidden {
		return nil
	}
	pids, err := w.children(parent.Pid)
	if err != nil {
		w.note(err)
		return nil
	}
	for _, pid := range pids {
		if p, there := w.child(pid, parent.Pid); there {
			found = append(found, p)
		}
	}
	if parent.Pid != os.Getpid() {
		now, err := Read(parent.Pid)
		if err != nil || now.Start != parent.Start {
			w.changed = true
			return nil
		}
		if now.Dead() && !parent.Dead() { // its children have fallen to this process
			w.changed = true
		}
	}
	return w.fresh(found)
}

// fresh leaves out what was found before, under another parent, and what is to be
// left out.
func (w *Walk) fresh(found []Process) (fresh []Process) {
	for _, p := range found {
		if p.Parent == os.Getpid() && w.except.Has(p) || w.Seen.Has(p) {
			continue
		}
		w.Seen.Add(p)
		fresh = append(fresh, p)
	}
	return fresh
}

// child reads a process that was listed as a child of parent. /proc mounted with
// hidepid leaves out processes of other users and those that are not dumpable,
// such as ssh-agent (proc(5)). A child of this process counts all the same. What
// is below another one falls to this process when that one ends.
func (w *Walk) child(pid, parent int) (p Process, there bool) {
	p, err := Read(pid)
	switch {
	case err == nil && p.Parent == parent:
		return p, true
	case err == nil, errors.Is(unix.Kill(pid, 0), unix.ESRCH): // it has fallen to another, or ended
		w.changed = true
		return Process{}, false
	}
	w.Partial = true
	return Process{Pid: pid, Parent: parent, Hidden: true}, parent == os.Getpid()
}

// note says what it means that a process's children cannot be listed.
func (w *Walk) note(err error) {
	if errors.Is(err, unix.ESRCH) {
		w.changed = true
		return
	}
	w.Partial = true
	w.NoLists = w.NoLists || errors.Is(err, unix.ENOSYS)
}

// children returns the numbers of a process's children, of all its threads. The
// error is ESRCH if the process has ended.
func (w *Walk) children(pid int) (pids []int, err error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := w.env.ReadNames(dir)
	if err != nil {
		if isVanished(err) {
			err = unix.ESRCH
		}
		return nil, err
	}
	for _, thread := range threads {
		if w.over() {
			break
		}
		err := ReadFile(dir+"/"+thread+"/"+w.env.ChildrenFile, func(list []byte) { pids = appendNumbers(pids, list) })
		switch {
		case err == nil:
		case !isVanished(err):
			return nil, err
		case unix.Access(dir+"/"+thread, unix.F_OK) == nil:
			return nil, unix.ENOSYS // the kernel has no such lists
		default:
			w.changed = true // its children have gone to another thread's list
		}
	}
	return pids, nil
}

func appendNumbers(all []int, list []byte) []int {
	for text := range bytes.FieldsSeq(list) {
		if n, err := strconv.Atoi(string(text)); err == nil {
			all = append(all, n)
		}
	}
	return all
}
