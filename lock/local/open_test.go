package local

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/lock/local/slotdir"
)

// strangers put something at a path that is not a regular file.
var strangers = map[string]func(t *testing.T, path string){
	"a FIFO":          func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) },
	"a directory":     func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
	"a symbolic link": func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) },
	"a socket":        func(t *testing.T, path string) { must(t, unix.Mknod(path, unix.S_IFSOCK|0o600, 0)) },
}

func lockOf(slot int) func(slotdir.Dir) string {
	return func(dir slotdir.Dir) string { return dir.LockPath(slot) }
}

func slotOf(slot int) func(slotdir.Dir) string {
	return func(dir slotdir.Dir) string { return dir.SlotPath(slot) }
}

func TestWhatIsNotAFileIsRefusedAndNotWaitedFor(t *testing.T) {
	resizing := func(b *Backend) error {
		_, _, err := b.Administrator(semaphore).Resize(t.Context(), 0, func(int) (int, error) { return 3, nil })
		return err
	}
	for what, c := range map[string]struct {
		id   lock.ID
		path func(dir slotdir.Dir) string
		do   func(b *Backend) error
	}{
		"lock file": {mutex, lockOf(1), func(b *Backend) error {
			_, err := contend(t, b, mutex).Acquire(t.Context())
			return err
		}},
		"lock file of a slot that has to be vacant": {semaphore, lockOf(1), func(b *Backend) error {
			return b.Administrator(semaphore).AwaitVacant(t.Context(), 1, 1)
		}},
		"lock file that is inspected": {semaphore, lockOf(2), func(b *Backend) error {
			return b.Inspect(semaphore)
		}},
		"administration mutex that is inspected": {semaphore, slotdir.Dir.AdminPath, func(b *Backend) error {
			return b.Inspect(semaphore)
		}},
		"slot file that is inspected": {semaphore, slotOf(1), func(b *Backend) error {
			return b.Inspect(semaphore)
		}},
		"slot file of the first": {semaphore, slotOf(1), func(b *Backend) error {
			_, err := contend(t, b, semaphore).Acquire(t.Context())
			return err
		}},
		"slot file that is to be removed": {semaphore, slotOf(1), func(b *Backend) error {
			_, _, err := b.Administrator(semaphore).Resize(t.Context(), 0, func(int) (int, error) { return 0, nil })
			return err
		}},
		"slot file":            {semaphore, slotOf(3), resizing},
		"administration mutex": {semaphore, slotdir.Dir.AdminPath, resizing},
	} {
		for kind, put := range strangers {
			t.Run(what+" is "+kind, func(t *testing.T) {
				b := open(t, t.TempDir())
				must(t, b.path(c.id).Make())
				path := c.path(b.path(c.id))
				put(t, path)
				err := c.do(b)
				if !errors.Is(err, lock.ErrUnsafe) || !strings.Contains(err.Error(), path+" is "+kind) ||
					!strings.Contains(err.Error(), "remove it") {
					t.Fatalf("error is %v, want %v, the path and what to do", err, lock.ErrUnsafe)
				}
			})
		}
	}
}

func TestDirectoryInThePlaceOfATermIsFoundByInspection(t *testing.T) {
	b := open(t, t.TempDir())
	must(t, b.path(mutex).Make())
	path := b.path(mutex).TermPath(1)
	must(t, os.Mkdir(path, 0o700))
	if err := b.Inspect(mutex); !errors.Is(err, lock.ErrUnsafe) || !strings.Contains(err.Error(),
		path+" is a directory") {
		t.Errorf("error is %v, want %v and the path", err, lock.ErrUnsafe)
	}
}

// The other end of the FIFO is open, so that a read would wait for data.
func TestTermFileThatIsAFIFOIsNotReadFrom(t *testing.T) {
	b := open(t, t.TempDir())
	last := term(t, b)
	path := recordedTerm(t, b)
	must(t, os.Remove(path))
	must(t, unix.Mkfifo(path, 0o600))
	other, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer other.Close()
	if next := term(t, b); next <= last {
		t.Fatalf("term %d comes after term %d", next, last)
	}
}
