package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/lock"
)

// Usable returns an error that wraps lock.ErrDenied if it can be seen without
// making anything that the lock's files cannot be made. Of an id without a name
// it looks at the directory of all locks.
func (b *Backend) Usable(id lock.ID) error {
	for dir := b.path(id); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // it will be made; the root is always there
		case err == nil && !info.IsDir():
			err = syscall.ENOTDIR
		case err == nil:
			err = unix.Access(dir, unix.W_OK|unix.X_OK)
		}
		if err != nil {
			return failure("cannot keep local locks", dir, err, lock.ErrDenied)
		}
		return nil
	}
}
