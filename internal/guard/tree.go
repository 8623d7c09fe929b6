package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look returns every process below this one, and whether it can have missed none
// but what was forked meanwhile. What is dead and not reaped is among them: the
// state of a process is that of its first thread, which can end before the
// others do. It ends early when enough says so.
func look(enough func() bool) (found []process, calm bool) {
	w := walkDown(nil, enough, func(p process) { found = append(found, p) })
	if !w.partial || w.over() {
		return found, !w.restless
	}
	table, err := processTable()
	if err != nil {
		return found, false
	}
	for _, p := range table.below(os.Getpid(), nil) {
		if start, seen := w.seen[p.pid]; !seen || start != p.start {
			found = append(found, p)
		}
	}
	return found, true
}

// A tree that does not come to rest is looked through twice, and until that time is
// over, but not more often than that.
const (
	mostLooks = 5
	looksTime = 100 * time.Millisecond
)

// descendants returns every process below this one, each once: all that two looks
// in a row find. Nothing is done to them before that, so that what one of
// them forks when it is told to end is not among them. It ends early when enough
// says so.
func descendants(enough func() bool) (all []process) {
	known := make(map[int]uint64)
	over := time.Now().Add(looksTime)
	for n := 0; n < mostLooks && (n < 2 || time.Now().Before(over)); n++ {
		found, calm := look(enough)
		for _, p := range found {
			if start, twice := known[p.pid]; !twice || start != p.start {
				known[p.pid], calm = p.start, false
				all = append(all, p)
			}
		}
		if calm {
			break
		}
	}
	return all
}

type processes map[int]process

// processTable is replaced by tests.
var processTable = readTable

// readTable reads /proc. It fails rather than leave a process out for want of
// descriptors or memory: what is not in it counts as gone.
func readTable() (processes, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes; berth needs /proc: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot list processes; berth needs /proc: %w", err)
	}
	table := make(processes)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := readStat(pid)
		switch {
		case err == nil:
			table[pid] = p
		case !vanished(err) && !closed(err):
			return nil, fmt.Errorf("cannot read the state of process %d: %w", pid, err)
		}
	}
	return table, table.addHidden()
}

// addHidden adds the children of this process that /proc does not show: mounted
// with hidepid, it leaves out those of other users and those that are not
// dumpable, such as ssh-agent (proc(5)). What is below them falls to this process
// when they end, as to a subreaper.
func (t processes) addHidden() error {
	pids, _ := new(walk).children(os.Getpid()) // the kernel tells them whatever /proc hides
	for _, pid := range pids {
		if _, seen := t[pid]; seen {
			continue
		}
		p, err := readStat(pid) // it may be newer than the table
		switch {
		case err == nil:
			t[pid] = p
		case vanished(err), closed(err):
			t[pid] = process{pid: pid, parent: os.Getpid(), hidden: true}
		default:
			return fmt.Errorf("cannot read the state of process %d: %w", pid, err)
		}
	}
	return nil
}

// childless reports whether this process has no child any more, dead ones that
// are not reaped included: the kernel knows that for certain.
func childless() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return errors.Is(err, unix.ECHILD)
}

// isChild reports whether the process is a child of this one that is not reaped.
func isChild(pidfd int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return !errors.Is(err, unix.ECHILD)
}

// below walks the table from root downwards.
func (t processes) below(root int, spare map[int]uint64) []process {
	children := make(map[int][]process, len(t))
	for _, p := range t {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	pending := []int{root}
	for len(pending) > 0 {
		next := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for _, p := range children[next] {
			if start, spared := spare[p.pid]; spared && start == p.start && next == root {
				continue
			}
			pending = append(pending, p.pid)
			found = append(found, p)
		}
	}
	return found
}

// openProcess is replaced by tests.
var openProcess = unix.PidfdOpen

// signalProcess sends the signal to just this process: a process that got the
// number later is not touched (pidfd_open(2)). The error is EPERM if we may not
// signal it, because it runs as somebody else, and otherwise says that it has
// ended; who kills a tree looks again.
func signalProcess(p process, sig syscall.Signal) error {
	fd, err := openProcess(p.pid, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
	case errors.Is(err, unix.ESRCH):
		return err
	}
	if p.hidden {
		if err == nil && !isChild(fd) {
			return unix.ESRCH
		}
	} else if now, err := readStat(p.pid); err != nil || now.start != p.start || now.dead() {
		return unix.ESRCH
	}
	if err != nil {
		// For want of memory or descriptors, for example. By its number it is
		// certain enough: numbers come around after thousands of forks.
		return unix.Kill(p.pid, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}
