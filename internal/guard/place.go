package guard

import "golang.org/x/sys/unix"

// elsewhere is where supervisor and guard are while they wait. A file system can
// be unmounted that is nobody's working directory.
const elsewhere = "/"

// LeaveDir has this process leave its working directory, and returns the path by
// which a guard comes back to start the command there (Spec.Dir). It stays, and
// the path is "", where no path leads back: the directory was removed, or one above
// it may not be passed.
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
	if !isHere(here) || unix.Chdir(elsewhere) != nil { // something else is mounted over it
		_ = unix.Fchdir(here) // it could be opened
		return ""
	}
	return path
}

func isHere(dir int) bool {
	var one, other unix.Stat_t
	return unix.Fstat(dir, &one) == nil && unix.Stat(".", &other) == nil && one.Dev == other.Dev && one.Ino == other.Ino
}

// inDir runs fork in the directory, "" being this one. The command inherits its
// working directory rather than enter it: berth may, and its user may be another.
func inDir(dir string, fork func() (pid int, err error)) (pid int, err error) {
	if dir == "" {
		return fork()
	}
	if err := unix.Chdir(dir); err != nil {
		return 0, err
	}
	defer func() { _ = unix.Chdir(elsewhere) }()
	return fork()
}
