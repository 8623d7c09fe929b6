package local

import (
	"context"
	"errors"
	"fmt"
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
)

func slotPath(dir string, slot int) string { return filepath.Join(dir, strconv.Itoa(slot)+slotSuffix) }
func lockPath(dir string, slot int) string { return filepath.Join(dir, strconv.Itoa(slot)+lockSuffix) }
func termPath(dir string, slot int) string { return filepath.Join(dir, strconv.Itoa(slot)+termSuffix) }

// slotNumber returns the number in a file name such as "12.slot".
func slotNumber(name, suffix string) (int, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 1 && n <= lock.MaxSlots && strconv.Itoa(n) == digits
}

// countSlots returns how many slots exist: the numbers from 1 that have a file,
// up to the first that has none. What is not a file is an error.
func countSlots(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	exists := make(map[int]bool, len(entries))
	for _, e := range entries {
		n, ok := slotNumber(e.Name(), slotSuffix)
		if ok && !e.Type().IsRegular() {
			return 0, strange(filepath.Join(dir, e.Name()), e.Type())
		}
		exists[n] = ok
	}
	n := 0
	for exists[n+1] {
		n++
	}
	return n, nil
}

// gone reports whether err says that a path does not lead to anything.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// failure words what went wrong with a file or directory. otherwise is the
// sentinel for what is not a matter of permission.
func failure(what, dir string, err, otherwise error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s in %s: %w", what, dir, err)
	case errors.Is(err, lock.ErrUnsafe), errors.Is(err, lock.ErrDenied):
		return fmt.Errorf("%s: %w", what, err) // it names the path and says what to do
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%s in %s: %w: %w; %s", what, dir, lock.ErrDenied, err, ownDirectory)
	case errors.Is(err, errNoWatch):
		return fmt.Errorf("%s in %s: %w: %w; raise fs.inotify.max_user_watches", what, dir, otherwise, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s in %s: %w: %w; free some space on the file system of %s, or name another directory: --broker local:///DIRECTORY", what, dir, lock.ErrUnknown, err, dir)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%s in %s: %w: %w; raise the limit of open files, or fs.inotify.max_user_instances", what, dir, otherwise, err)
	}
	return fmt.Errorf("%s in %s: %w: %w; see whether the directory is there and in order", what, dir, otherwise, err)
}
