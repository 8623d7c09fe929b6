package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
)

func TestCommandHasTheSignalMaskOfItsSupervisor(t *testing.T) {
	for name, blocked := range map[string]uint64{
		"nothing is blocked":      0,
		"TSTP is":                 1 << (unix.SIGTSTP - 1),
		"TTIN, TTOU and USR1 are": 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1) | 1<<(unix.SIGUSR1-1),
		"TSTP, USR2 and CONT are": 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGUSR2-1) | 1<<(unix.SIGCONT-1),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // which forks the guard
			defer runtime.UnlockOSThread()
			mask, before := unix.Sigset_t{Val: [16]uint64{blocked}}, unix.Sigset_t{}
			if err := unix.PthreadSigmask(unix.SIG_SETMASK, &mask, &before); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()

			file := filepath.Join(t.TempDir(), "status")
			tr := prepare(t, `exec cat /proc/self/status >`+file)
			if now := threadMask(t); now != blocked {
				t.Errorf("the thread has the mask %x now, not %x", now, blocked)
			}
			tr.run()
			tr.next(wire.Exited)
			status, _ := os.ReadFile(file)
			if want := fmt.Sprintf("SigBlk:\t%016x\n", blocked); !strings.Contains(string(status), want) {
				t.Errorf("the command does not have %q:\n%s", want, status)
			}
		})
	}
}

func threadMask(t *testing.T) uint64 {
	t.Helper()
	var now unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &now); err != nil {
		t.Fatal(err)
	}
	return now.Val[0]
}
