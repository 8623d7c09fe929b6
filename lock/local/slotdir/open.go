package slotdir

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"berth/lock"
)

// openFile opens a file of a lock. Something else in its place is refused, and
// neither followed nor waited for, as the other end of a FIFO would be.
func openFile(path string, flags int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	if err != nil {
		// What cannot be opened may be a directory, a socket or a link.
		if info, statErr := os.Lstat(path); statErr == nil && !info.Mode().IsRegular() {
			return nil, strange(path, info.Mode())
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = strange(path, info.Mode())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// strange says that a path is not a regular file. Waiting does not help.
func strange(path string, mode fs.FileMode) error {
	what := "a device"
	switch mode.Type() {
	case fs.ModeDir:
		what = "a directory"
	case fs.ModeSymlink:
		what = "a symbolic link"
	case fs.ModeNamedPipe:
		what = "a FIFO"
	case fs.ModeSocket:
		what = "a socket"
	}
	return lock.Errorf(lock.ErrUnsafe, "%s is %s and not a file of berth's; remove it", path, what)
}

// MayUseFiles makes sure that the files that a contender or an administrator
// flocks can be opened, if they are there. It opens none of them for writing:
// the close of that would wake all who wait.
func (d Dir) MayUseFiles(kind lock.Kind) error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, term := slotNumber(e.Name(), termSuffix); term && e.IsDir() {
			return strange(d.path(e.Name()), e.Type())
		}
		if !flocked(e.Name(), kind) {
			continue
		}
		path := d.path(e.Name())
		f, err := openFile(path, os.O_RDONLY, 0)
		if err == nil {
			_ = f.Close()
			if err = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != nil {
				err = &os.PathError{Op: "access", Path: path, Err: err}
			}
		}
		if err != nil && !Gone(err) {
			return err
		}
	}
	return nil
}

// flocked reports whether a file of this name is flocked for a lock of that kind.
func flocked(name string, kind lock.Kind) bool {
	if name == adminFile {
		return kind.Administered()
	}
	slot, ok := slotNumber(name, lockSuffix)
	return ok && (slot == 1 || kind == lock.Semaphore)
}
