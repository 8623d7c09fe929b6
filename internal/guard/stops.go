package guard

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// keyboardStops are the signals that stop a process and can be blocked: what a
// terminal sends (signal(7)).
var keyboardStops = []syscall.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}

// stops are the same as bits of a signal mask, whose first word has 32 at least.
const stops = 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)

// withStopsBlocked runs fork, which forks a guard, on a thread with these signals
// blocked, and tells it which of them were before. Between fork(2) and setpgid(2)
// the guard is in berth's process group, and nothing handles a signal yet: what
// stops the group would stop it before it has executed its program, and this
// process waits for that in vfork(2), deaf to everything. The guard begins with
// them blocked.
func withStopsBlocked(fork func(blocked uint32) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	block.Val[0] = stops
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return fmt.Errorf("cannot block signals: %w", err)
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return fork(uint32(before.Val[0] & stops))
}

// unblockStops gives the guard's thread that forks the command the signal mask of
// berth. The command needs no such protection while it is forked: terminals and
// shells do not stop the guard's process group, and the guard goes on beside a
// fork that does not.
func unblockStops(blocked uint32) {
	var unblock unix.Sigset_t
	for _, sig := range keyboardStops {
		if blocked&(1<<(sig-1)) == 0 {
			unblock.Val[0] |= 1 << (sig - 1)
		}
	}
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &unblock, nil) // fails for a first argument that does not exist
}

// deadly are the signals that would end or stop the guard. Go catches all others
// and does nothing (package os/signal, "Default behavior of signals in Go
// programs"); to ask for one takes two switches between threads.
var deadly = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTERM,
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
}

// dropSignals has the guard receive and drop them. Signals are the supervisor's
// to judge, also those that somebody sends to every process of a unit.
func dropSignals() {
	var received []os.Signal
	for _, sig := range deadly {
		if !signal.Ignored(sig) { // the command inherits an inherited ignore of HUP and INT
			received = append(received, sig)
		}
	}
	// One that came while this process was forked is pending, and Notify unblocks
	// signals before it handles them. Ignored, it is forgotten.
	signal.Ignore(unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	signal.Notify(make(chan os.Signal, 1), received...) // nobody reads it
}
