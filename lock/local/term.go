package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxTermFile is more than the longest number and a newline take.
const maxTermFile = 32

// nextTerm returns the term after the last one of the slot, and has put it on
// disk. Only who holds the slot calls it.
//
// It counts up and does not follow the clock: so the last term stays behind the
// clock by about the time that the file has existed, and a file that is lost,
// as with every reboot where the directory is in /run, begins above it even if
// the clock has been set back meanwhile, by less than that time.
func nextTerm(dir string, slot int) (uint64, error) {
	path := termPath(dir, slot)
	last := readTerm(path)
	next := last + 1
	if last == 0 {
		next = firstTerm(time.Now())
	}
	return next, writeTerm(dir, path, next)
}

// firstTerm is the clock in microseconds. A clock that is before 1970 gives 1.
func firstTerm(now time.Time) uint64 { return uint64(max(now.UnixMicro(), 1)) }

// readTerm returns 0 for a file that is not there, cannot be read, or has
// something else in it. No such file may keep the slot from being used: it is
// replaced by the next one that is written.
func readTerm(path string) uint64 {
	f, err := openFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTermFile))
	if err != nil {
		return 0
	}
	digits, whole := strings.CutSuffix(string(text), "\n")
	// 63 bits: the resource that compares terms may have signed integers only.
	term, err := strconv.ParseInt(digits, 10, 64)
	if !whole || err != nil || term < 1 || term == math.MaxInt64 {
		return 0
	}
	return uint64(term)
}

// writeTerm replaces the file in one step. It returns once the term would
// survive a power failure: otherwise the same one would be given out again.
func writeTerm(dir, path string, term uint64) error {
	next := path + ".new"
	// What a holder that was killed at this very point has left would be in the
	// way of O_EXCL, with which nothing that is there already is written to.
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Readable for everybody, unlike lock files: nothing depends on a flock of
	// this file.
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d\n", term)
	if err == nil {
		err = f.Sync()
	}
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next)
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename in the directory last.
func syncDir(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return cmp.Or(d.Sync(), d.Close())
}
