package local

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

// strange says that a path is not a regular file. Waiting does not mend that.
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
