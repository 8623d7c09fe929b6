// Package slotdir is the directory that a local lock has on disk: which slots exist,
// who keeps one flocked, the last term of each, and being told when that changes.
//
//	dir := slotdir.Dir(filepath.Join("/run/berth", slotdir.Name("nightly")))
//	err := dir.Make()
//	claim, err := dir.Claim(1)
//
// It knows files, and neither contenders nor what they promise. Package local says
// what the files are for. Errors of the kinds lock.ErrDenied and lock.ErrUnsafe say
// what to do about a path that is of no use; others are the system's.
package slotdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"berth/lock"
)

const (
	slotSuffix = ".slot"
	lockSuffix = ".lock"
	termSuffix = ".term"
	adminFile  = "admin.lock"
	socketsDir = "sockets"
)

// Dir is the absolute path of a lock's directory.
type Dir string

// SlotPath is the file that says that a slot exists.
func (d Dir) SlotPath(slot int) string { return d.path(strconv.Itoa(slot) + slotSuffix) }

// LockPath is the file that is flocked for a slot.
func (d Dir) LockPath(slot int) string { return d.path(strconv.Itoa(slot) + lockSuffix) }

// TermPath is the file with the last term of a slot.
func (d Dir) TermPath(slot int) string { return d.path(strconv.Itoa(slot) + termSuffix) }

// AdminPath is the file that is flocked during an administrative action.
func (d Dir) AdminPath() string { return d.path(adminFile) }

// SocketsPath is the directory with the sockets of those who hold a slot or wait for one.
func (d Dir) SocketsPath() string { return d.path(socketsDir) }

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// slotNumber returns the number in a file name such as "12.slot".
func slotNumber(name, suffix string) (int, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 1 && n <= lock.MaxSlots && strconv.Itoa(n) == digits
}

// Slots returns how many slots exist: the numbers from 1 that have a file,
// up to the first that has none. What is not a file is an error.
func (d Dir) Slots() (int, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return 0, err
	}
	exists := make(map[int]bool, len(entries))
	for _, e := range entries {
		n, ok := slotNumber(e.Name(), slotSuffix)
		if ok && !e.Type().IsRegular() {
			return 0, strange(d.path(e.Name()), e.Type())
		}
		exists[n] = ok
	}
	n := 0
	for exists[n+1] {
		n++
	}
	return n, nil
}

// Gone reports whether err says that a path does not lead to anything.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// MakeSlot makes a slot exist. It does nothing if it does.
func (d Dir) MakeSlot(slot int) error {
	f, err := openFile(d.SlotPath(slot), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
