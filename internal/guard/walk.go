package guard

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// walk goes down from this process through the lists that the kernel keeps of
// each thread's children (proc_tid_children(5)). Beside any number of other
// processes it reads of none but the tree's, while to read all of /proc takes
// half a second beside 25,000.
//
// A list can leave a process out while others of it end, and what loses its
// parent falls to this process, whose list was read first. So who wants a tree
// dead walks again until nothing is left, and who wants it whole until two walks
// find the same.
type walk struct {
	spare map[int]uint64 // children of this process to be left out, with what is below them
	seen  map[int]uint64 // the start of what was found

	// partial: there is a process into which this one may not look. The whole
	// table can tell more.
	partial bool
	// blind: the kernel was built without the lists (CONFIG_PROC_CHILDREN), so
	// that only the table can tell anything. It is partial too.
	blind bool
	// restless: a process has ended, or fallen to another parent, meanwhile, or
	// the walk was broken off.
	restless bool

	enough func() bool // breaks the walk off, even among the threads of one process; nil does not
}

// over reports whether the walk is to be broken off. It says so in restless.
func (w *walk) over() bool {
	if w.enough == nil || !w.enough() {
		return false
	}
	w.restless = true
	return true
}

// manyThreads is how many threads of one process take long to be read, a
// millisecond for every hundred. It is visited first then.
const manyThreads = 50

// walkDown calls visit for what is below this process, from the top down. What is
// below a process has been noted when it is visited, unless that one has many
// threads: after its end it is somewhere else.
func walkDown(spare map[int]uint64, enough func() bool, visit func(p process)) *walk {
	w := &walk{spare: spare, seen: make(map[int]uint64), enough: enough}
	pending := w.below(process{pid: os.Getpid()})
	for len(pending) > 0 && !w.over() {
		next := pending[0]
		first := next.threads > manyThreads
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

// below returns the children of a process that are new. By the time that they
// are read, numbers may be somebody else's: a child has to say that it is one,
// and the process to be still there.
func (w *walk) below(parent process) (found []process) {
	if parent.hidden {
		return nil
	}
	pids, err := w.children(parent.pid)
	if err != nil {
		w.note(err)
		return nil
	}
	for _, pid := range pids {
		if p, there := w.child(pid, parent.pid); there {
			found = append(found, p)
		}
	}
	if parent.pid != os.Getpid() {
		now, err := readStat(parent.pid)
		if err != nil || now.start != parent.start {
			w.restless = true
			return nil
		}
		if now.dead() && !parent.dead() { // its children have fallen to this process
			w.restless = true
		}
	}
	return w.fresh(found)
}

// fresh leaves out what was found before, under another parent, and what is to be
// spared.
func (w *walk) fresh(found []process) (fresh []process) {
	for _, p := range found {
		if start, spared := w.spare[p.pid]; spared && start == p.start && p.parent == os.Getpid() {
			continue
		}
		if start, known := w.seen[p.pid]; known && start == p.start {
			continue
		}
		w.seen[p.pid] = p.start
		fresh = append(fresh, p)
	}
	return fresh
}

// child reads a process that was listed as a child of parent. /proc mounted with
// hidepid leaves out processes of other users and those that are not dumpable,
// such as ssh-agent (proc(5)). A child of this process counts all the same. What
// is below another one falls to this process when that one ends.
func (w *walk) child(pid, parent int) (p process, there bool) {
	p, err := readStat(pid)
	switch {
	case err == nil && p.parent == parent:
		return p, true
	case err == nil, errors.Is(unix.Kill(pid, 0), unix.ESRCH): // it has fallen to another, or ended
		w.restless = true
		return process{}, false
	}
	w.partial = true
	return process{pid: pid, parent: parent, hidden: true}, parent == os.Getpid()
}

// note says what it means that a process's children cannot be listed.
func (w *walk) note(err error) {
	if errors.Is(err, unix.ESRCH) {
		w.restless = true
		return
	}
	w.partial = true
	w.blind = w.blind || errors.Is(err, unix.ENOSYS)
}

// childrenFile is replaced by tests.
var childrenFile = "children"

// children returns the numbers of a process's children, of all its threads. The
// error is ESRCH if the process has ended.
func (w *walk) children(pid int) (pids []int, err error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := namesIn(dir)
	if err != nil {
		if vanished(err) {
			err = unix.ESRCH
		}
		return nil, err
	}
	for _, thread := range threads {
		if w.over() {
			break
		}
		list, err := readProc(dir + "/" + thread + "/" + childrenFile)
		switch {
		case err == nil:
			pids = append(pids, numbers(list)...)
		case !vanished(err):
			return nil, err
		case unix.Access(dir+"/"+thread, unix.F_OK) == nil:
			return nil, unix.ENOSYS // the kernel has no such lists
		default:
			w.restless = true // its children have gone to another thread's list
		}
	}
	return pids, nil
}

func numbers(list []byte) (all []int) {
	for _, text := range bytes.Fields(list) {
		if n, err := strconv.Atoi(string(text)); err == nil {
			all = append(all, n)
		}
	}
	return all
}
