package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/lock"
)

// nobody is a user that is neither root nor the one that tests run as.
const nobody = 65534

func chmod(path string, mode fs.FileMode) error { return os.Chmod(path, mode) }

func chown(path string) error { return os.Lchown(path, nobody, -1) } // needs root

func TestDirectoryInWhichOthersCanReplaceLocksIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(base, dir string) error{
		"lock writable for everybody":             func(_, dir string) error { return chmod(dir, 0o777) },
		"lock writable for everybody, and sticky": func(_, dir string) error { return chmod(dir, 0o777|fs.ModeSticky) },
		"lock of another user":                    func(_, dir string) error { return chown(dir) },
		"lock is a link": func(_, dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir))
		},
		"base writable for everybody": func(base, _ string) error { return chmod(base, 0o777) },
		"base of another user":        func(base, _ string) error { return chown(base) },
		"base is a link of another user": func(base, _ string) error {
			return errors.Join(os.Rename(base, base+"2"), os.Symlink(base+"2", base), chown(base))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			b := open(t, base)
			resize(t, b, semaphore, 1)
			must(t, spoil(base, b.path(semaphore)))
			ctx := t.Context()
			l, a := b.Lock(semaphore), b.Administrator(semaphore)
			defer func() { _ = l.Close() }()
			_, slotsErr := a.Slots(ctx)
			_, _, resizeErr := a.Resize(ctx, 0, func(int) (int, error) { return 1, nil })
			for what, err := range map[string]error{
				"Connect": l.Connect(ctx), "Slots": slotsErr, "Resize": resizeErr,
				"AwaitVacant": a.AwaitVacant(ctx, 1, 1), "Inspect": b.Inspect(semaphore),
			} {
				if !errors.Is(err, lock.ErrDenied) || !strings.Contains(err.Error(), "--broker local:///DIRECTORY") {
					t.Errorf("%s: error is %v, want %v and what to do", what, err, lock.ErrDenied)
				}
			}
		})
	}
}

func TestDirectoryThatOthersCannotSpoilIsUsed(t *testing.T) {
	for name, prepare := range map[string]func(base, dir string) error{
		"made on demand": func(base, _ string) error { return os.RemoveAll(base) },
		"umask of 002":   func(base, dir string) error { return errors.Join(chmod(base, 0o775), chmod(dir, 0o775)) },
		"base like /tmp": func(base, _ string) error { return chmod(base, 0o777|fs.ModeSticky) },
		"base is a link": func(base, _ string) error { return errors.Join(os.Rename(base, base+"2"), os.Symlink(base+"2", base)) },
		"for us alone":   func(_, dir string) error { return chmod(dir, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			b := open(t, base)
			resize(t, b, semaphore, 1)
			must(t, prepare(base, b.path(semaphore)))
			must(t, b.Inspect(semaphore))
			resize(t, b, semaphore, 1)
			hold(t, b, semaphore)
		})
	}
}

func TestInspectionSaysWhatCannotBeUsedAndMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link)) // to what is not there
	for path, usable := range map[string]bool{
		dir: true, dir + "/deeper": true, file: false, file + "/deeper": false, link: false, link + "/deeper": false,
	} {
		for _, id := range []lock.ID{mutex, {}} {
			if err := open(t, path).Inspect(id); (err == nil) != usable || err != nil && !errors.Is(err, lock.ErrDenied) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made %s", dir)
	}
}
