// Package procfs finds the processes below this one ([Env.Descendants], [Env.Children]), and signals single processes
// ([Env.Signal]), through /proc and pidfds (proc(5), pidfd_open(2)):
//
//	env := procfs.Kernel()
//	for _, p := range env.Descendants(nil) {
//		err := env.Signal(p, unix.SIGTERM)
//	}
//
// It knows how the kernel numbers, lists and hides processes. It must not know what anybody wants of them: that is
// package [berth/internal/guard/tree].
package procfs

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"

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
func Read(pid int) (p Process, err error) {
	whole := false
	err = ReadFile("/proc/"+strconv.Itoa(pid)+"/stat", func(text []byte) { p, whole = parse(pid, text) })
	if err == nil && !whole {
		err = unix.ESRCH
	}
	return p, err
}

func parse(pid int, stat []byte) (p Process, whole bool) {
	p.Pid = pid
	number := 2
	for field := range bytes.FieldsSeq(stat[bytes.LastIndexByte(stat, ')')+1:]) {
		switch number++; number {
		case 3:
			p.State = field[0]
		case 4:
			p.Parent, _ = strconv.Atoi(string(field))
		case 5:
			p.Group, _ = strconv.Atoi(string(field))
		case 6:
			p.Session, _ = strconv.Atoi(string(field))
		case 20:
			p.Threads, _ = strconv.Atoi(string(field))
		case 22:
			p.Start, _ = strconv.ParseUint(string(field), 10, 64)
			return p, true
		}
	}
	return p, false
}

// IDs returns the user and group ids of a process, real, effective, saved and of
// the file system each, "" if they cannot be read.
func IDs(pid int) string {
	var ids []string
	_ = eachField("/proc/"+strconv.Itoa(pid)+"/status", func(name, value []byte) {
		if string(name) == "Uid" || string(name) == "Gid" {
			ids = append(ids, strings.Fields(string(value))...)
		}
	})
	return strings.Join(ids, " ")
}

// InnermostPid returns a process's number in its own PID namespace, 0 if it
// cannot be read.
func InnermostPid(pid int) (number int) {
	_ = eachField("/proc/"+strconv.Itoa(pid)+"/status", func(name, value []byte) {
		if numbers := bytes.Fields(value); string(name) == "NSpid" && len(numbers) > 0 {
			number, _ = strconv.Atoi(string(numbers[len(numbers)-1]))
		}
	})
	return number
}

// eachField reads a status file (proc_pid_status(5)).
func eachField(file string, each func(name, value []byte)) error {
	return ReadFile(file, func(text []byte) {
		for len(text) > 0 {
			var line []byte
			line, text, _ = bytes.Cut(text, []byte("\n"))
			name, value, _ := bytes.Cut(line, []byte(":"))
			each(name, bytes.TrimSpace(value))
		}
	})
}

// isVanished reports that the process has ended and is reaped.
func isVanished(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// isForbidden reports that the process may not be looked at.
func isForbidden(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// buffers are used again: a tree can have thousands of processes, of which each is read some times.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 4096)) }}

// ReadFile reads a file of /proc, whose text is there until use returns, and readNames lists a directory of it: with
// less effort than package os, which makes each known to the poller first.
func ReadFile(path string, use func(text []byte)) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for read := 0; ; {
		n, err := unix.Read(fd, (*buffer)[read:])
		if err != nil {
			return err
		}
		if n == 0 {
			use((*buffer)[:read])
			return nil
		}
		if read += n; read == len(*buffer) {
			*buffer = append(*buffer, *buffer...)
		}
	}
}

func readNames(dir string) (names []string, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		n, err := unix.ReadDirent(fd, *buffer)
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent((*buffer)[:n], -1, names)
	}
}
