// Package signals knows signals by name: which of them berth forwards ([Forwarded]), which end it ([Ends]), how a user
// writes them ([Parse], [Name]), which one is handed on in place of another ([Rewrites]), and how a command is ended
// ([Sequence]).
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

// The standard signals go up to 31, the real-time signals from 34 to 64
// (signal(7)): the C library keeps 32 and 33.
const (
	standard = syscall.Signal(31)
	rtmin    = syscall.Signal(34)
	rtmax    = syscall.Signal(64)
)

// kept are the signals that are never forwarded: two cannot be caught, CHLD is
// berth's own business, Go's runtime sends URG to itself all the time to preempt
// goroutines (https://go.dev/src/runtime/preempt.go), and it hands PROF, the tick of
// its profiler, to nobody (sighandler in https://go.dev/src/runtime/signal_unix.go).
// RTMIN it leaves to musl: it ends berth, as it ends any program of Go.
var kept = []syscall.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG, unix.SIGPROF, rtmin}

// Own returns the signals that the kernel sends to a process for what it has
// done itself: a write that nobody reads, a limit that it has reached. berth
// survives them, and they are never forwarded: Go's runtime does not tell them from
// those that somebody has sent, and berth's own say nothing to the command.
func Own() []syscall.Signal {
	return []syscall.Signal{unix.SIGPIPE, unix.SIGXCPU, unix.SIGXFSZ}
}

// Forwarded returns every signal that berth takes and hands on, in ascending
// order: all but the ones that cannot or must not be.
func Forwarded() []syscall.Signal {
	var all []syscall.Signal
	for sig := syscall.Signal(1); sig <= rtmax; sig++ {
		if exists(sig) && !slices.Contains(kept, sig) && !slices.Contains(Own(), sig) {
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
	return sig == unix.SIGCONT || slices.Contains(KeyboardStops(), sig)
}

// KeyboardStops returns the signals by which a terminal stops a process, which can
// block them, unlike STOP.
func KeyboardStops() []syscall.Signal {
	return []syscall.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}
}

// RealTime reports whether the signal is one that has no fixed meaning.
func RealTime(sig syscall.Signal) bool { return sig >= rtmin && sig <= rtmax }

func exists(sig syscall.Signal) bool { return sig >= 1 && sig <= standard || RealTime(sig) }

// Name returns the name without SIG, "TERM", or the number where a signal has
// no name. Real-time signals are called as kill(1) does: RTMIN+3, RTMAX-14.
func Name(sig syscall.Signal) string {
	switch {
	case sig == rtmin:
		return "RTMIN"
	case sig == rtmax:
		return "RTMAX"
	case RealTime(sig) && sig-rtmin <= rtmax-sig:
		return fmt.Sprintf("RTMIN+%d", int(sig-rtmin))
	case RealTime(sig):
		return fmt.Sprintf("RTMAX-%d", int(rtmax-sig))
	}
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(sig))
}

// Parse reads a signal as users write them: "TERM", "SIGTERM", "term", "15",
// "RTMIN+3".
func Parse(text string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if !exists(syscall.Signal(n)) {
			return 0, fmt.Errorf("%q is not a signal: numbers go from 1 to 31 and from 34 to 64", text)
		}
		return syscall.Signal(n), nil
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if sig := unix.SignalNum("SIG" + name); sig != 0 {
		return sig, nil
	}
	if sig := parseRealTime(name); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("%q is not a signal: write a name like TERM or RTMIN+3, or a number from 1 to 31 or 34 to 64",
		text)
}

// parseRealTime reads RTMIN, RTMIN+n, RTMAX and RTMAX-n, and returns 0 for
// anything else.
func parseRealTime(name string) syscall.Signal {
	for prefix, from := range map[string]syscall.Signal{"RTMIN": rtmin, "RTMAX": rtmax} {
		distance, found := strings.CutPrefix(name, prefix)
		if !found {
			continue
		}
		if distance == "" {
			return from
		}
		n, err := strconv.Atoi(distance)
		plus := distance[0] == '+'
		if sig := from + syscall.Signal(n); err == nil && plus == (from == rtmin) && (plus || distance[0] == '-') &&
			RealTime(sig) {
			return sig
		}
	}
	return 0
}
