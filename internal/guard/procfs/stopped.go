package procfs

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/signals"
)

// stopSignals are the signals that stop a process (signal(7)). STOP cannot be
// caught.
var stopSignals = append([]syscall.Signal{unix.SIGSTOP}, signals.KeyboardStops()...)

// threadsRead bounds how many threads of one process are looked at.
const threadsRead = 50

// IsStopped reports whether the process is stopped, or will be as soon as it runs:
// it obeys no signal then but KILL and CONT. One that is stopped by a debugger
// (state t) is not: what becomes of that is the debugger's business.
func (e *Env) IsStopped(pid int) bool {
	// Twice, because a process can take a signal that is pending, and so stop,
	// between its state and its signals are read.
	for range 2 {
		if e.isStoppedNow(pid) {
			return true
		}
	}
	return false
}

func (e *Env) isStoppedNow(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := readStatus(dir + "/status")
	switch {
	case err != nil:
		return false
	case status.state == 'T', status.stopPending():
		return true
	case status.threads < 2, status.state == 'S':
		return false // one that sleeps is woken to stop, and runs until it has
	}
	// The first thread may have ended, or be where it cannot be stopped yet, as
	// in vfork(2); all of them stop together.
	threads, _ := e.ReadNames(dir + "/task")
	for _, thread := range threads[:min(len(threads), threadsRead)] {
		if status, err := readStatus(dir + "/task/" + thread + "/status"); err == nil && status.state == 'T' {
			return true
		}
	}
	return false
}

// status is what proc_pid_status(5) says of a thread and its signals. Of sets,
// bit n-1 stands for signal n.
type status struct {
	state                             byte
	threads                           int
	pending, blocked, ignored, caught uint64
}

// stopPending reports whether a signal is pending that will stop the process.
func (s status) stopPending() bool {
	for _, sig := range stopSignals {
		bit := uint64(1) << (sig - 1)
		harmless := s.blocked | s.ignored | s.caught
		if s.pending&bit != 0 && (sig == unix.SIGSTOP || harmless&bit == 0) {
			return true
		}
	}
	return false
}

func readStatus(file string) (s status, err error) {
	err = eachField(file, func(name, value []byte) {
		switch string(name) {
		case "State":
			s.state = append(value[:len(value):len(value)], 0)[0]
		case "Threads":
			s.threads, _ = strconv.Atoi(string(value))
		case "SigPnd", "ShdPnd":
			s.pending |= signalSet(value)
		case "SigBlk":
			s.blocked = signalSet(value)
		case "SigIgn":
			s.ignored = signalSet(value)
		case "SigCgt":
			s.caught = signalSet(value)
		}
	})
	return s, err
}

func signalSet(text []byte) uint64 {
	set, _ := strconv.ParseUint(string(text), 16, 64)
	return set
}
