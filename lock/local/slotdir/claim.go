package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// claim is a lock file that is flocked by us. It has the file open twice:
//
//   - lock, read-only, is what is flocked. A contender that finds the file held
//     closes it again, and closing what was open for reading only is not an
//     event that anybody watches. So failed attempts wake nobody, and nobody
//     has to keep the files of all slots open between two attempts.
//   - mark, for writing, is opened only once the flock is ours. When its last
//     copy is closed, by whomever and however they ended, the kernel tells the
//     waiters (IN_CLOSE_WRITE).
type claim struct {
	lock, mark *os.File
	info       fs.FileInfo // of lock: which file it is
}

// errHeld: somebody else has the file flocked.
var errHeld = errors.New("held")

// take tries once to flock the file at path, which it makes if it is not there.
// It returns errHeld if it is somebody else's.
func take(path string) (*claim, error) { return tryFlock(path, unix.LOCK_EX, os.O_CREATE) }

// tryFlock opens the file at path and tries once to flock it.
func tryFlock(path string, how, flags int) (_ *claim, err error) {
	c := &claim{}
	// It is opened with O_CLOEXEC: a copy in some other child of this process
	// would keep the slot held. 0600, because who can read a file can flock it,
	// and so keep everybody else waiting.
	if c.lock, err = openFile(path, os.O_RDONLY|flags, 0o600); err != nil {
		return nil, err
	}
	if err = flock(c.lock, how|unix.LOCK_NB); err == nil {
		c.info, err = c.lock.Stat()
	}
	if err == nil {
		c.mark, err = openFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		_ = c.lock.Close() // frees it too
		return nil, err
	}
	return c, nil
}

// free gives the file up and tells the waiters so.
func (c *claim) free() error {
	// Closing is not enough: the guard may have copies. Unlocking ends it for
	// all copies, and so does the truncation (IN_MODIFY) tell the waiters
	// whether or not a copy of mark stays open.
	err := flock(c.lock, unix.LOCK_UN)
	return cmp.Or(err, c.mark.Truncate(0), c.lock.Close(), c.mark.Close())
}

// isAt reports whether the file at path is the one that is flocked.
func (c *claim) isAt(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(c.info, info), nil
}

// flock calls flock(2) and returns errHeld where that would have to wait.
func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for failed = unix.EINTR; failed == unix.EINTR; {
			failed = unix.Flock(int(fd), how)
		}
	})
	switch {
	case err != nil:
		return err
	case failed == syscall.EWOULDBLOCK:
		return errHeld
	case failed != nil:
		return fmt.Errorf("flock %s: %w", f.Name(), failed)
	}
	return nil
}
