package procfs

import (
	"fmt"
	"os"
	"strconv"
)

// Table is the process table, by number.
type Table map[int]Process

// Table reads all of /proc, which takes half a second beside 25,000 processes. Out of
// descriptors or memory it fails rather than leave a process out: what is not in it
// counts as gone.
func (e *Env) Table() (Table, error) {
	names, err := e.ReadNames("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes; berth needs /proc: %w", err)
	}
	table := make(Table)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := Read(pid)
		switch {
		case err == nil:
			table[pid] = p
		case !isVanished(err) && !isForbidden(err):
			return nil, fmt.Errorf("cannot read the state of process %d: %w", pid, err)
		}
	}
	return table, e.addHidden(table)
}

// addHidden adds the children of this process that /proc does not show: mounted
// with hidepid, it leaves out those of other users and those that are not
// dumpable, such as ssh-agent (proc(5)). What is below them falls to this process
// when they end, as to a subreaper.
func (e *Env) addHidden(table Table) error {
	pids, _ := (&Walk{env: e}).children(os.Getpid()) // the kernel tells them whatever /proc hides
	for _, pid := range pids {
		if _, seen := table[pid]; seen {
			continue
		}
		p, err := Read(pid) // it may be newer than the table
		switch {
		case err == nil:
			table[pid] = p
		case isVanished(err), isForbidden(err):
			table[pid] = Process{Pid: pid, Parent: os.Getpid(), Hidden: true}
		default:
			return fmt.Errorf("cannot read the state of process %d: %w", pid, err)
		}
	}
	return nil
}

// Below returns what is below root in the table, but for the children of root that
// are in except and what is below them.
func (t Table) Below(root int, except Set) []Process {
	children := make(map[int][]Process, len(t))
	for _, p := range t {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	pending := []int{root}
	for len(pending) > 0 {
		next := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for _, p := range children[next] {
			if next == root && except.Has(p) {
				continue
			}
			pending = append(pending, p.Pid)
			found = append(found, p)
		}
	}
	return found
}
