package parent

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"berth/signals"
)

// keyboardStops are signals.KeyboardStops as bits of a signal mask, whose first word
// has 32 at least.
const keyboardStops = 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)

// WithStopsBlocked runs fork, which forks a guard, on a thread with these signals
// blocked, and tells it which of them were before. Between fork(2) and setpgid(2)
// the guard is in berth's process group, and nothing handles a signal yet: what
// stops the group would stop it before it has executed its program, and this
// process waits for that in vfork(2), deaf to everything. The guard begins with
// them blocked.
func WithStopsBlocked(fork func(blocked uint32) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	block.Val[0] = keyboardStops
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return fmt.Errorf("cannot block signals: %w", err)
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return fork(uint32(before.Val[0] & keyboardStops))
}

// UnblockStops gives the guard's thread that forks the command the signal mask of
// berth. The command needs no such protection while it is forked: terminals and
// shells do not stop the guard's process group, and the guard goes on beside a
// fork that does not.
func UnblockStops(blocked uint32) {
	var unblock unix.Sigset_t
	for _, sig := range signals.KeyboardStops() {
		if blocked&(1<<(sig-1)) == 0 {
			unblock.Val[0] |= 1 << (sig - 1)
		}
	}
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &unblock, nil) // fails for a first argument that does not exist
}
