// Package signals knows signals by name: which of them berth forwards, which
// end it, how a user writes them, and the sequences with which a command is
// ended:
//
//	stop, err := signals.ParseSequence("TERM 8s, KILL")
//	rewrites, err := signals.ParseRewrites([]string{"HUP=USR1"})
//
// It is pure: it sends nothing and starts nothing.
package signals

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// highest is the last of the standard signals (signal(7)); real-time signals
// have no fixed meaning and are not forwarded.
const highest = syscall.Signal(31)

// kept are the signals that are never forwarded: two cannot be caught, CHLD is
// berth's own business, the synchronous faults are its own errors, Go's runtime
// sends URG to itself all the time to preempt goroutines
// (https://go.dev/src/runtime/preempt.go), and it hands PROF, the tick of its
// profiler, to nobody (sighandler in https://go.dev/src/runtime/signal_unix.go).
var kept = []syscall.Signal{
	unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG, unix.SIGPROF,
	unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS,
}

// Own returns the signals that the kernel sends to a process for what it has
// done itself: a write that nobody reads, a limit that it has reached. berth
// survives them, and they are never forwarded: they say nothing to the command.
func Own() []syscall.Signal {
	return []syscall.Signal{unix.SIGPIPE, unix.SIGXCPU, unix.SIGXFSZ}
}

// Forwarded returns every signal that berth takes and hands on, in ascending
// order: all of 1..31 but the ones that cannot or must not be.
func Forwarded() []syscall.Signal {
	var all []syscall.Signal
	for sig := syscall.Signal(1); sig <= highest; sig++ {
		if !slices.Contains(kept, sig) && !slices.Contains(Own(), sig) {
			all = append(all, sig)
		}
	}
	return all
}

// Ends reports whether the signal asks berth to end: TERM, INT and QUIT do.
func Ends(sig syscall.Signal) bool {
	return sig == unix.SIGTERM || sig == unix.SIGINT || sig == unix.SIGQUIT
}

// JobControl reports whether the signal is one by which a terminal or a shell
// stops and continues jobs. Such a signal concerns a whole process group.
func JobControl(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT:
		return true
	}
	return false
}

// Name returns the name without SIG, "TERM", or the number where a signal has
// no name.
func Name(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(sig))
}

// Parse reads a signal as users write them: "TERM", "SIGTERM", "term" or "15".
func Parse(text string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > int(highest) {
			return 0, fmt.Errorf("%q is no signal: numbers go from 1 to %d", text, int(highest))
		}
		return syscall.Signal(n), nil
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if sig := unix.SignalNum("SIG" + name); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("%q is no signal: write a name like TERM, or a number from 1 to %d", text, int(highest))
}
