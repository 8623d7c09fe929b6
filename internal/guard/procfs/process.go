// Package procfs finds the processes below this one, and signals single
// processes, through /proc and pidfds (proc(5), pidfd_open(2)):
//
//	env := procfs.Kernel()
//	for _, p := range env.Descendants(nil) {
//		err := env.Signal(p, unix.SIGTERM)
//	}
//
// It knows how the kernel numbers, lists and hides processes. It must not know
// what anybody wants of them: that is package tree.
package procfs

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Env is the part of the kernel's interface that tests replace.
type Env struct {
	OpenPidfd    func(pid, flags int) (fd int, err error)     // pidfd_open(2)
	ReadNames    func(dir string) (names []string, err error) // lists a directory of /proc
	ChildrenFile string                                       // a thread's list of children, proc_tid_children(5)
}

// Kernel returns the interface of the kernel that runs this process.
func Kernel() *Env {
	return &Env{OpenPidfd: unix.PidfdOpen, ReadNames: readNames, ChildrenFile: "children"}
}

// Process is one line of the process table (proc_pid_stat(5)). A number alone does
// not identify a process, because numbers are used again; Pid and Start do.
type Process struct {
	Pid     int
	Parent  int
	Group   int
	Session int    // 0: that of its leader is not known in this PID namespace
	Start   uint64 // clock ticks after boot

	State   byte // of the first thread; T is stopped, Z is dead
	Threads int

	Hidden bool // a child of this process of which only the number is known
}

// Dead reports whether the process only waits to be reaped. The state is that of
// its first thread, which can end before the others do.
func (p Process) Dead() bool { return p.State == 'Z' && p.Threads <= 1 }

// Set is processes by number, with their start. nil is empty, and cannot be added to.
type Set map[int]uint64

// Add adds a process, in place of an earlier one with its number.
func (s Set) Add(p Process) { s[p.Pid] = p.Start }

// Has reports whether this very process is in the set.
func (s Set) Has(p Process) bool {
	start, found := s[p.Pid]
	return found && start == p.Start
}

// Read reads /proc/PID/stat. It fails for a process that is gone, or that this
// process may not look at. The command's name, in parentheses, can contain
// anything, so fields are counted from its last parenthesis.
func Read(pid int) (Process, error) {
	data, err := readFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const state, parent, group, session, threads, start = 0, 1, 2, 3, 17, 19 // fields 3, 4, 5, 6, 20 and 22
	if len(fields) <= start {
		return Process{}, unix.ESRCH
	}
	p := Process{Pid: pid, State: fields[state][0]}
	p.Threads, _ = strconv.Atoi(string(fields[threads]))
	p.Parent, _ = strconv.Atoi(string(fields[parent]))
	p.Group, _ = strconv.Atoi(string(fields[group]))
	p.Session, _ = strconv.Atoi(string(fields[session]))
	p.Start, _ = strconv.ParseUint(string(fields[start]), 10, 64)
	return p, nil
}

// IDs returns the user and group ids of a process, real, effective, saved and of
// the file system each, "" if they cannot be read.
func IDs(pid int) string {
	var ids []string
	_ = eachField("/proc/"+strconv.Itoa(pid)+"/status", func(name string, value []byte) {
		if name == "Uid" || name == "Gid" {
			ids = append(ids, strings.Fields(string(value))...)
		}
	})
	return strings.Join(ids, " ")
}

// InnermostPid returns a process's number in its own PID namespace, 0 if it
// cannot be read.
func InnermostPid(pid int) (number int) {
	_ = eachField("/proc/"+strconv.Itoa(pid)+"/status", func(name string, value []byte) {
		if numbers := bytes.Fields(value); name == "NSpid" && len(numbers) > 0 {
			number, _ = strconv.Atoi(string(numbers[len(numbers)-1]))
		}
	})
	return number
}

// eachField reads a status file (proc_pid_status(5)).
func eachField(file string, each func(name string, value []byte)) error {
	text, err := readFile(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		each(string(name), bytes.TrimSpace(value))
	}
	return nil
}

// isVanished reports that the process has ended and is reaped.
func isVanished(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// isForbidden reports that the process may not be looked at.
func isForbidden(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// readFile reads a file of /proc, readNames lists a directory of it: with less
// effort than package os, which makes each known to the poller first.
func readFile(path string) (all []byte, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var data [4096]byte
	for {
		n, err := unix.Read(fd, data[:])
		if err != nil || n == 0 {
			return all, err
		}
		all = append(all, data[:n]...)
	}
}

func readNames(dir string) (names []string, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var data [4096]byte
	for {
		n, err := unix.ReadDirent(fd, data[:])
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(data[:n], -1, names)
	}
}
