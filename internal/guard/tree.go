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
	pid    int
	parent int
	group  int
	start  uint64 // clock ticks after boot

	state   byte // of the first thread; T is stopped, Z is dead
	threads int
}

// dead reports whether the process is only to be reaped.
func (p process) dead() bool { return p.state == 'Z' && p.threads <= 1 }

// descendants returns every process below root, with the children of root that
// spare names left out, and what is below them. What is dead and not reaped is
// among them: the state of a process is that of its first thread, which can end
// before the others do.
//
// It can miss a process that was forked while it looked, so who wants a tree
// dead looks again until nothing is left.
func descendants(root int, spare map[int]uint64) ([]process, error) {
	table, err := processTable()
	if err != nil {
		return nil, err
	}
	return table.below(root, spare), nil
}

type processes map[int]process

func processTable() (processes, error) {
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
		if p, alive := readProcess(pid); alive {
			table[pid] = p
		}
	}
	return table, nil
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
func readSmall(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var data [1024]byte // 52 numbers and a name of 16 bytes take less (proc_pid_stat(5))
	n, err := unix.Read(fd, data[:])
	if err != nil {
		return nil
	}
	return data[:n]
}

// readProcess reads /proc/PID/stat. The command's name, in parentheses, can
// contain anything, so fields are counted from its last parenthesis.
func readProcess(pid int) (process, bool) {
	data := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return process{}, false
	}
	fields := bytes.Fields(data[end+1:])
	const state, parent, group, threads, start = 0, 1, 2, 17, 19 // fields 3, 4, 5, 20 and 22
	if len(fields) <= start {
		return process{}, false
	}
	p := process{pid: pid, state: fields[state][0]}
	p.threads, _ = strconv.Atoi(string(fields[threads]))
	p.parent, _ = strconv.Atoi(string(fields[parent]))
	p.group, _ = strconv.Atoi(string(fields[group]))
	p.start, _ = strconv.ParseUint(string(fields[start]), 10, 64)
	return p, true
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
	if now, alive := readProcess(p.pid); !alive || now.start != p.start || now.dead() {
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

// killBelow sends KILL to everything below root once and returns how many
// processes it found, the dead that are not reaped among them, and one of those
// that it may not signal, 0 if there is none.
//
// Process groups that consist of descendants alone are killed as groups first:
// the kernel does that in one step, against which a member cannot fork
// (fork(2) fails with a signal pending). That is what ends a command that forks
// without end. The group's number was in use a moment ago and cannot have come
// around since.
func killBelow(root int, spare map[int]uint64) (n, refused int, err error) {
	table, err := processTable()
	if err != nil {
		return 0, 0, err
	}
	found := table.below(root, spare)
	inside := make(map[int]bool, len(found))
	for _, p := range found {
		inside[p.pid] = true
	}
	whole := make(map[int]bool)
	for _, p := range found {
		whole[p.group] = true
	}
	for _, p := range table {
		if !inside[p.pid] {
			delete(whole, p.group)
		}
	}
	for group := range whole {
		if group > 1 && group != unix.Getpgrp() {
			_ = unix.Kill(-group, unix.SIGKILL)
		}
	}
	for _, p := range found {
		if signalProcess(p, unix.SIGKILL) {
			refused = p.pid
		}
	}
	return len(found), refused, nil
}
