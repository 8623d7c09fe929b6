package guard

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LeaveDir has this process leave its working directory for "/", so that its file
// system can be unmounted while berth waits, and returns the path by which a guard comes
// back to start the command there (Spec.Dir). It stays, and the path is "", where no path
// leads back: the directory was removed, or one above it may not be passed.
func LeaveDir() (path string) {
	here, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(here)
	path, err = unix.Getwd()
	if err != nil || unix.Chdir(path) != nil {
		return ""
	}
	if !isHere(here) || unix.Chdir("/") != nil { // something else is mounted over it
		_ = unix.Fchdir(here) // it could be opened
		return ""
	}
	return path
}

func isHere(dir int) bool {
	var one, other unix.Stat_t
	return unix.Fstat(dir, &one) == nil && unix.Stat(".", &other) == nil && one.Dev == other.Dev && one.Ino == other.Ino
}

// InDir does something in the directory that LeaveDir has left, for paths that are relative to it.
func InDir(path string, do func() error) error {
	if path == "" { // it was not left
		return do()
	}
	if err := unix.Chdir(path); err != nil {
		return fmt.Errorf("cannot go back to %s, where berth was started: %w", path, err)
	}
	defer func() { _ = unix.Chdir("/") }()
	return do()
}
