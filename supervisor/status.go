package supervisor

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// The exit statuses of berth. Those from 64 to 78 mean what sysexits.h says, those
// above 125 what shells say (POSIX, Shell Command Language, 2.8.2), and 124 what timeout(1)
// does. Every other one is the command's own.
const (
	// ExitUsage: the command line is wrong.
	ExitUsage = 64
	// ExitUnreachable: no broker could be reached, with --try or --timeout.
	ExitUnreachable = 69
	// ExitInternal: something happened that berth has no name for.
	ExitInternal = 70
	// ExitNotObtained: the slot, or the change that an administrator asked for,
	// was not obtained; trying again later may help.
	ExitNotObtained = 75
	// ExitLost: the slot was lost, with --on-loss exit.
	ExitLost = 76
	// ExitDenied: the broker refused the login or a permission.
	ExitDenied = 77
	// ExitConfig: the configuration is invalid or unsafe.
	ExitConfig = 78
	// ExitCut: the command was ended because it had run for --max-run, or because its
	// health checks failed, with --on-loss exit or --try.
	ExitCut = 124
	// ExitCannotExecute: the command is there and cannot be executed.
	ExitCannotExecute = 126
	// ExitNotFound: the command is not there.
	ExitNotFound = 127
	// ExitSignal plus n: signal n ended the command, or berth before it had started
	// one.
	ExitSignal = 128
)

// Exit is how a run ends. As an error, it has a command line end so.
type Exit struct {
	// Status is the exit status, where the command, a signal or the command's
	// start decided it. 0 beside an Err: that has a status of its own.
	Status int
	// Err says what is wrong. nil: the command ran and ended, berth was told to end,
	// or all has been said.
	Err error
}

func (e Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e Exit) Unwrap() error { return e.Err }

// EndedStatus returns the exit status that says how a command ended.
func EndedStatus(status syscall.WaitStatus) int {
	if status.Signaled() {
		return ExitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// Failure says in a few words how a program failed that has ended so, "" if it did not.
func Failure(status syscall.WaitStatus) string {
	switch {
	case status.Signaled():
		return fmt.Sprintf("signal %d ended it", status.Signal())
	case status != 0:
		return fmt.Sprintf("it ended with %d", status.ExitStatus())
	}
	return ""
}

// NotExecuted returns how a run ends whose command could not be executed: with
// ExitNotFound or ExitCannotExecute.
func NotExecuted(err error) Exit {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return Exit{Status: ExitNotFound, Err: err}
	}
	return Exit{Status: ExitCannotExecute, Err: err}
}

// Interrupted reports whether a terminal's keys ended a process. One that
// handles their signals, such as a JVM, says so by the same status.
func Interrupted(status syscall.WaitStatus) bool {
	code := EndedStatus(status)
	return code == ExitSignal+int(unix.SIGINT) || code == ExitSignal+int(unix.SIGQUIT)
}
