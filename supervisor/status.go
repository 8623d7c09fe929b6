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

// NotExecutedStatus returns the exit status that says why a command could not be
// executed: ExitNotFound or ExitCannotExecute.
func NotExecutedStatus(err error) int {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return ExitNotFound
	}
	return ExitCannotExecute
}

// Interrupted reports whether a terminal's keys ended a process. One that
// handles their signals, such as a JVM, says so by the same status.
func Interrupted(status syscall.WaitStatus) bool {
	code := EndedStatus(status)
	return code == ExitSignal+int(unix.SIGINT) || code == ExitSignal+int(unix.SIGQUIT)
}
