package local

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

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
			must(t, spoil(base, string(b.path(semaphore))))
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
		"base is a link": func(base, _ string) error {
			return errors.Join(os.Rename(base, base+"2"), os.Symlink(base+"2", base))
		},
		"for us alone": func(_, dir string) error { return chmod(dir, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			b := open(t, base)
			resize(t, b, semaphore, 1)
			must(t, prepare(base, string(b.path(semaphore))))
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
			if err := open(t, path).Inspect(id); (err == nil) != usable || err != nil &&
				!errors.Is(err, lock.ErrDenied) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made %s", dir)
	}
}

// The directory is shared by a group, and who used the lock first was root. A file
// that can be read has to be writable as well.
func TestInspectionNamesTheFileThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	must(t, chmod(filepath.Dir(dir), 0o755))
	b := open(t, dir)
	for name, ids := range map[string]struct{ refused, usable []lock.ID }{
		"1.lock":     {refused: []lock.ID{mutex, persistent, semaphore}},
		"2.lock":     {refused: []lock.ID{semaphore}, usable: []lock.ID{mutex, persistent}},
		"admin.lock": {refused: []lock.ID{persistent, semaphore}, usable: []lock.ID{mutex}},
		"1.term":     {usable: []lock.ID{mutex, persistent, semaphore}}, // is replaced
	} {
		for _, mode := range []fs.FileMode{0o600, 0o644} {
			for _, id := range ids.refused {
				path := filepath.Join(string(b.path(id)), name)
				err := inspectAsNobody(t, b, id, path, mode)
				if !errors.Is(err, lock.ErrDenied) || !strings.Contains(err.Error(), path+": permission denied") ||
					!strings.Contains(err.Error(), "--broker local:///DIRECTORY") {
					t.Errorf("%s, %s with mode %o: error is %v, want %v, the path and what to do", id, name, mode,
						err, lock.ErrDenied)
				}
			}
			for _, id := range ids.usable {
				if err := inspectAsNobody(t, b, id, filepath.Join(string(b.path(id)), name), mode); err != nil {
					t.Errorf("%s, %s, of which it has no need: %v", id, name, err)
				}
			}
		}
	}
}

// inspectAsNobody returns what another user is told of a lock where the file at
// path is root's. Needs root.
func inspectAsNobody(t *testing.T, b *Backend, id lock.ID, path string, mode fs.FileMode) error {
	t.Helper()
	must(t, b.path(id).Make())
	must(t, os.WriteFile(path, nil, mode))
	defer os.Remove(path)
	// For the files that this thread opens; it ends with its goroutine.
	found := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setfsuid(nobody); err != nil {
			found <- err
			return
		}
		found <- b.Inspect(id)
	}()
	return <-found
}

func TestFileSystemWithoutRoomForALockIsNoMissingBroker(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=1")) // needs root
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	b := open(t, dir)
	l, a := b.Lock(mutex), b.Administrator(semaphore)
	_, _, resizeErr := a.Resize(t.Context(), 0, func(int) (int, error) { return 1, nil })
	for what, err := range map[string]error{"Connect": l.Connect(t.Context()), "Resize": resizeErr} {
		if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrUnreachable) ||
			!strings.Contains(err.Error(), "free some space") {
			t.Errorf("%s: error is %v, want %v and what to do", what, err, lock.ErrUnknown)
		}
	}
}

func TestAdministrationSaysWhatItRemovesAndWhomItWaitsFor(t *testing.T) {
	var log bytes.Buffer
	var saying sync.Mutex
	b, err := New(Config{Dir: t.TempDir(), Log: hclog.New(&hclog.LoggerOptions{Output: &log, Mutex: &saying})})
	must(t, err)
	said := func(text string) bool {
		saying.Lock()
		defer saying.Unlock()
		return strings.Contains(log.String(), text)
	}
	resize(t, b, semaphore, 4)
	must(t, os.Remove(b.path(semaphore).SlotPath(2)))
	other, err := b.path(semaphore).ClaimAdministration()
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, _, err := b.Administrator(semaphore).Resize(t.Context(), 8, func(int) (int, error) { return 1, nil })
		done <- err
	}()
	for end := time.Now().Add(20 * time.Second); !said("another administrator is changing"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not say that it waits")
		}
	}
	must(t, other.Free())
	must(t, <-done)
	if !said("leftovers beyond the last slot were removed") || !said("[3 4]") {
		t.Errorf("of the leftovers it says %q", log.String())
	}
}

func TestDirectoryMustBeAbsolute(t *testing.T) {
	if _, err := New(Config{Dir: "some/dir"}); err == nil || !strings.Contains(err.Error(), "local:///some/dir") {
		t.Errorf("error is %v", err)
	}
	if b := open(t, ""); b.dir != DefaultDir {
		t.Errorf("without a directory it is %s, want %s", b.dir, DefaultDir)
	}
}
