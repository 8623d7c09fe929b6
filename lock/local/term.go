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
	"sync"
	"time"
)

// maxTermFile is more than the longest number, the name of a boot and what
// separates them take.
const maxTermFile = 64

// nextTerm returns the term after the last one of the slot, and has recorded it.
// Only who holds the slot calls it.
//
// It counts up and does not follow the clock: so the last term stays behind the
// clock by about the time that the file has existed, and a file that is lost, as
// with every reboot where the directory is in /run, begins above it even if the
// clock has been set back meanwhile, by less than that time.
//
// The file is not forced to disk, which would take longer than everything else:
// only the end of the whole host, and of every command with it, can undo what
// was written, and terms of another boot are followed by those of the clock.
func nextTerm(dir string, slot int) (uint64, error) {
	path, boot := termPath(dir, slot), thisBoot()
	last, of := readTerm(path)
	next := last + 1
	if of != boot || boot == "" {
		next = max(next, firstTerm(time.Now()))
	}
	return next, writeTerm(path, fmt.Sprintf("%d %s\n", next, boot))
}

// firstTerm is the clock in microseconds. A clock that is before 1970 gives 1.
func firstTerm(now time.Time) uint64 { return uint64(max(now.UnixMicro(), 1)) }

// thisBoot names the time since the host was booted (random(4)), "" if the
// kernel does not.
var thisBoot = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
})

// readTerm returns the last term and the boot that it is of. It returns 0 for a
// file that is not there, cannot be read, or has something else in it. No such
// file may keep the slot from being used: it is replaced by the next one that is
// written.
func readTerm(path string) (last uint64, boot string) {
	f, err := openFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTermFile))
	if err != nil {
		return 0, ""
	}
	line, whole := strings.CutSuffix(string(text), "\n")
	digits, boot, _ := strings.Cut(line, " ")
	// 63 bits: the resource that compares terms may have signed integers only.
	term, err := strconv.ParseInt(digits, 10, 64)
	if !whole || err != nil || term < 1 || term == math.MaxInt64 {
		return 0, ""
	}
	return uint64(term), boot
}

// writeTerm replaces the file in one step.
func writeTerm(path, text string) error {
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
	_, err = f.WriteString(text)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(next)
	if info, statErr := os.Lstat(path); statErr == nil && info.IsDir() { // nothing else is in the way of a rename
		return strange(path, info.Mode())
	}
	return err
}
