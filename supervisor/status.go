package supervisor

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit statuses as shells give them (POSIX, Shell Command Language, 2.8.2).
const (
	cannotExecute = 126
	notFound      = 127
	signalBase    = 128
)

// exitStatus is the status that says how the command ended.
func exitStatus(status syscall.WaitStatus) int {
	if status.Signaled() {
		return signalBase + int(status.Signal())
	}
	return status.ExitStatus()
}

// startStatus is the status that says why a command could not be executed.
func startStatus(err error) int {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return notFound
	}
	return cannotExecute
}

// interrupted reports whether a terminal's keys ended the process. One that
// handles their signals, such as a JVM, says so by the same status.
func interrupted(status syscall.WaitStatus) bool {
	code := exitStatus(status)
	return code == signalBase+int(unix.SIGINT) || code == signalBase+int(unix.SIGQUIT)
}
