package slotdir

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

	"golang.org/x/sys/unix"

	"berth/lock"
)

// maxTermFile is more than the longest number, the name of a boot and what
// separates them take.
const maxTermFile = 64

// NextTerm returns the term after the last one of the slot, and has recorded it.
// Only the holder of the slot calls it.
//
// It counts up and does not follow the clock: so the last term stays behind the
// clock by about the time that the file has existed, and a file that is lost, as
// with every reboot where the directory is in /run, begins above it even if the
// clock has been set back meanwhile, by less than that time.
//
// The file is not forced to disk, which would take longer than everything else:
// only the end of the whole host, and of every command with it, can undo what
// was written, and terms of another boot are followed by those of the clock.
func (d Dir) NextTerm(slot int) (uint64, error) {
	f, err := openTerm(d.TermPath(slot))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	boot := Boot()
	last, of := readTerm(f)
	next := last + 1
	if of != boot || boot == "" {
		next = max(next, firstTerm(time.Now()))
	}
	return next, cmp.Or(writeTerm(f, termText(next, boot)), f.Close())
}

// LastTerm returns the last term of the slot, 0 if it is not known, or of another boot.
func (d Dir) LastTerm(slot int) uint64 {
	f, err := openFile(d.TermPath(slot), os.O_RDONLY, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	last, of := readTerm(f)
	if of != Boot() {
		return 0
	}
	return last
}

// openTerm opens the file, and makes it if it is not there. What cannot be used
// is replaced: no such thing may keep the slot from being used. Only a directory
// stays.
func openTerm(path string) (*os.File, error) {
	// Readable for everybody, unlike lock files: nothing depends on a flock of
	// this file.
	const flags, perm = os.O_RDWR | os.O_CREATE, 0o644
	f, err := openFile(path, flags, perm)
	useless := errors.Is(err, lock.ErrUnsafe) || errors.Is(err, fs.ErrPermission)
	if useless && unix.Unlink(path) == nil {
		f, err = openFile(path, flags, perm)
	}
	return f, err
}

// firstTerm is the clock in microseconds. A clock that is before 1970 gives 1.
func firstTerm(now time.Time) uint64 { return uint64(max(now.UnixMicro(), 1)) }

// Boot names the time since the host was booted (random(4)), "" if the
// kernel does not.
var Boot = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
})

// readTerm returns the last term and the boot that it is of. It returns 0 for a
// file that is new, cannot be read, or has something else in it.
func readTerm(f *os.File) (last uint64, boot string) {
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

// termText is what the file has: the term with the zeros that make all terms
// equally long, and the boot.
func termText(term uint64, boot string) string { return fmt.Sprintf("%019d %s\n", term, boot) }

// writeTerm writes over what the file has. To replace the file in one step takes
// 0.4 ms on ext4, an eighth of a whole handover, and would win nothing: a kill
// does not cut so short a write in two, and of two terms that follow each other
// the beginning of one and the end of the other make no lower one.
func writeTerm(f *os.File, text string) error {
	info, err := f.Stat()
	if err == nil && info.Size() > int64(len(text)) { // not one of ours
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	return err
}
