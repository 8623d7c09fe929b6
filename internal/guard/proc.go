package guard

import (
	"bytes"
	"errors"
	"strconv"

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

// readProcess returns false for a process that is gone, or not to be looked at.
func readProcess(pid int) (process, bool) {
	p, err := readStat(pid)
	return p, err == nil
}

// readStat reads /proc/PID/stat. The command's name, in parentheses, can contain
// anything, so fields are counted from its last parenthesis.
func readStat(pid int) (process, error) {
	data, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
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

// vanished: the process has ended, and is reaped.
func vanished(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// closed: the process may not be looked at.
func closed(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// readProc reads a file of /proc, namesIn lists a directory of it: with less effort
// than package os, which makes each known to the poller first.
func readProc(path string) (all []byte, err error) {
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

func namesIn(dir string) (names []string, err error) {
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
