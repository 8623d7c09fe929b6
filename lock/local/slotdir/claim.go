package slotdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Claim is a lock file that is flocked by us. It has the file open twice:
//
//   - lock, read-only, is what is flocked. A contender that finds the file held
//     closes it again, and closing what was open for reading only is not an
//     event that anybody watches. So failed attempts wake nobody, and nobody
//     has to keep the files of all slots open between two attempts.
//   - mark, for writing, is opened only once the flock is ours. When its last
//     copy is closed, by whomever and however they ended, the kernel tells the
//     waiters (IN_CLOSE_WRITE).
type Claim struct {
	lock, mark *os.File
	info       fs.FileInfo // of lock: which file it is
	path       string      // where it was opened
}

// ErrHeld: somebody else has the file flocked.
var ErrHeld = errors.New("held")

// Claim tries once to flock the lock file of a slot, which it makes if it is not
// there. It returns ErrHeld if it is somebody else's.
func (d Dir) Claim(slot int) (*Claim, error) { return take(d.LockPath(slot)) }

// ClaimAdministration is Claim for the file of the administration mutex.
func (d Dir) ClaimAdministration() (*Claim, error) { return take(d.AdminPath()) }

// Vacant reports whether nobody has the lock file of a slot flocked. It flocks it
// shared for that, and at once no more: several can look at once, and a claim that
// comes in between is tried again, see flockPastLooks. Those who wait are woken
// afterwards all the same. (/proc/locks would not disturb anybody, but does
// not show the locks of other PID namespaces.)
func (d Dir) Vacant(slot int) (bool, error) {
	path := d.LockPath(slot)
	look, err := openFile(path, os.O_RDONLY, 0)
	if Gone(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = flock(look, unix.LOCK_SH|unix.LOCK_NB)
	_ = look.Close() // ends it
	switch {
	case errors.Is(err, ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	if look, err = openFile(path, os.O_WRONLY, 0); err != nil {
		return false, err
	}
	return true, look.Close() // IN_CLOSE_WRITE
}

// take opens the file at path, which it makes if it is not there, and tries once to
// flock it.
func take(path string) (_ *Claim, err error) {
	c := &Claim{path: path}
	// It is opened with O_CLOEXEC: a copy in some other child of this process
	// would keep the slot held. 0600, because who can read a file can flock it,
	// and so keep everybody else waiting.
	if c.lock, err = openFile(path, os.O_RDONLY|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err = flockPastLooks(c.lock); err == nil {
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

// flockPastLooks flocks a file, or returns ErrHeld if somebody has it flocked who is not
// only looking, see Vacant. A look is over in microseconds; who met one would else be told
// that a free slot is held, and with --try not come back.
//
// A flock that is shared for a moment tells them apart, as a look of our own: a holder refuses
// it.
func flockPastLooks(f *os.File) error {
	// A tenth of a second in all: who looks may be off the processor for a while.
	const first, last = 10 * time.Microsecond, 50 * time.Millisecond
	for pause := first; ; pause *= 2 {
		if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, ErrHeld) {
			return err
		}
		if err := flock(f, unix.LOCK_SH|unix.LOCK_NB); err != nil {
			return err
		}
		if err := flock(f, unix.LOCK_UN); err != nil {
			return err
		}
		if pause > last {
			return ErrHeld
		}
		time.Sleep(pause)
	}
}

// Keep flocks the file again if somebody with a copy of it has unlocked it. ErrHeld says that
// it is somebody else's by now.
func (c *Claim) Keep() error { return flockPastLooks(c.lock) }

// Free gives the file up and tells the waiters so. Somebody else who has it by now, because a
// guard has unlocked it, keeps it.
func (c *Claim) Free() error {
	// Closing is not enough: the guard may have copies. Unlocking ends it for
	// all copies, and so does the truncation (IN_MODIFY) tell the waiters
	// whether or not a copy of mark stays open.
	err := flock(c.lock, unix.LOCK_UN)
	return cmp.Or(err, c.mark.Truncate(0), c.lock.Close(), c.mark.Close())
}

// Current reports whether the file at the claim's path still is the one that is
// flocked. Gone tells of its error whether there is none.
func (c *Claim) Current() (bool, error) {
	info, err := os.Lstat(c.path)
	if err != nil {
		return false, err
	}
	return os.SameFile(c.info, info), nil
}

// Files are what keeps the file flocked while a process has copies of them. In this
// order, a process that closes one after the other has freed the slot before the
// waiters hear of it, and so has one that unlocks and truncates them, as Free does.
func (c *Claim) Files() []*os.File { return []*os.File{c.lock, c.mark} }

// flock calls flock(2) and returns ErrHeld where that would have to wait.
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
		return ErrHeld
	case failed != nil:
		return fmt.Errorf("flock %s: %w", f.Name(), failed)
	}
	return nil
}
