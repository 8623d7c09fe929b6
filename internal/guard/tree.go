package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is one line of the process table (proc_pid_stat(5)). A pid alone does
// not identify a process, because numbers are used again; pid and start do.
type process struct {
	pid     int
	parent  int
	group   int
	session int
	start   uint64 // clock ticks after boot

	state   byte // of the first thread; T is stopped, Z is dead
	threads int

	hidden bool // a child of this process of which only the number is known
}

// dead reports whether the process is only to be reaped.
func (p process) dead() bool { return p.state == 'Z' && p.threads <= 1 }

// look returns every process below this one, and whether it can have missed none
// but what was forked meanwhile. What is dead and not reaped is among them: the
// state of a process is that of its first thread, which can end before the
// others do.
func look() (found []process, calm bool) {
	w := walkDown(nil, func(p process) { found = append(found, p) })
	if !w.partial {
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

// looks bounds how often a tree is looked through that does not come to rest.
const looks = 5

// descendants returns every process below this one, each once: all that two looks
// in a row find. Nothing is done to them before that, so that what one of
// them forks when it is told to end is not among them.
func descendants() (all []process) {
	known := make(map[int]uint64)
	for range looks {
		found, calm := look()
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

// vanished: the process has ended, and is reaped.
func vanished(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// closed: the process may not be looked at.
func closed(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

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

// readSmall reads a file of /proc in one piece. os.ReadFile would make each of
// hundreds of them known to the poller first.
func readSmall(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var data [1024]byte // 52 numbers and a name of 16 bytes take less (proc_pid_stat(5))
	n, err := unix.Read(fd, data[:])
	if err != nil {
		return nil, err
	}
	return data[:n], nil
}

// readProcess returns false for a process that is gone, or not to be looked at.
func readProcess(pid int) (process, bool) {
	p, err := readStat(pid)
	return p, err == nil
}

// readStat reads /proc/PID/stat. The command's name, in parentheses, can contain
// anything, so fields are counted from its last parenthesis.
func readStat(pid int) (process, error) {
	data, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const state, parent, group, session, threads, start = 0, 1, 2, 3, 17, 19 // fields 3, 4, 5, 6, 20 and 22
	if len(fields) <= start {
		return process{}, unix.ESRCH
	}
	p := process{pid: pid, state: fields[state][0]}
	p.threads, _ = strconv.Atoi(string(fields[threads]))
	p.parent, _ = strconv.Atoi(string(fields[parent]))
	p.group, _ = strconv.Atoi(string(fields[group]))
	p.session, _ = strconv.Atoi(string(fields[session]))
	p.start, _ = strconv.ParseUint(string(fields[start]), 10, 64)
	return p, nil
}

// openProcess is replaced by tests.
var openProcess = unix.PidfdOpen

// signalProcess sends the signal to just this process: a process that got the
// number later is not touched (pidfd_open(2)). It reports whether we may not
// signal it, because it runs as somebody else.
func signalProcess(p process, sig syscall.Signal) (refused bool) {
	fd, err := openProcess(p.pid, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
	case errors.Is(err, unix.ESRCH):
		return false // gone
	}
	if p.hidden {
		if err == nil && !isChild(fd) {
			return false
		}
	} else if now, alive := readProcess(p.pid); !alive || now.start != p.start || now.dead() {
		return false
	}
	if err != nil {
		// For want of memory or descriptors, for example. By its number it is
		// certain enough: numbers come around after thousands of forks.
		return errors.Is(unix.Kill(p.pid, sig), unix.EPERM)
	}
	// Any other error means that it has ended; who kills a tree looks again.
	return errors.Is(unix.PidfdSendSignal(fd, sig, nil, 0), unix.EPERM)
}
