package local

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/lock/local/slotdir"
)

// term holds the mutex for a moment and returns under which term.
func term(t *testing.T, b *Backend) uint64 {
	t.Helper()
	held := hold(t, b, mutex)
	must(t, held.Ready(t.Context()))
	must(t, held.Release(t.Context()))
	return held.Term()
}

func recordedTerm(t *testing.T, b *Backend) string {
	t.Helper()
	return b.path(mutex).TermPath(1)
}

func TestTermsBeginAtTheClockAndCountUp(t *testing.T) {
	b := open(t, t.TempDir())
	before := time.Now()
	first := term(t, b)
	if at := time.UnixMicro(int64(first)); at.Before(before.Truncate(time.Microsecond)) || at.After(time.Now()) {
		t.Fatalf("the first term is %d, which is %s and not now", first, at)
	}
	if next := term(t, b); next != first+1 {
		t.Fatalf("term %d comes after term %d", next, first)
	}
}

func TestClockThatWasSetBackDoesNotMakeTermsFall(t *testing.T) {
	b := open(t, t.TempDir())
	term(t, b)
	future := uint64(time.Now().Add(24 * time.Hour).UnixMicro())
	must(t, os.WriteFile(recordedTerm(t, b), []byte(strconv.FormatUint(future, 10)+"\n"), 0o600))
	if next := term(t, b); next != future+1 {
		t.Fatalf("term %d comes after term %d", next, future)
	}
}

// What was not on disk yet when the power failed may have been a higher one.
func TestTermsFollowTheClockAfterAReboot(t *testing.T) {
	b := open(t, t.TempDir())
	term(t, b)
	for _, earlier := range []string{"17 6f1c0d1e-0000-4000-8000-000000000000\n", "17\n"} {
		must(t, os.WriteFile(recordedTerm(t, b), []byte(earlier), 0o600))
		before := uint64(time.Now().UnixMicro())
		if next := term(t, b); next < before {
			t.Fatalf("term %d comes after term 17 of another boot, at %d", next, before)
		}
	}
}

func TestTermsBeginAtTheClockAgainWhereTheFileIsOfNoUse(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed":      os.Remove,
		"empty":        func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"cut short":    func(path string) error { return os.WriteFile(path, []byte("17"), 0o600) },
		"not a number": func(path string) error { return os.WriteFile(path, []byte("seventeen\n"), 0o600) },
		"negative":     func(path string) error { return os.WriteFile(path, []byte("-17\n"), 0o600) },
		"zero":         func(path string) error { return os.WriteFile(path, []byte("0\n"), 0o600) },
		"the last number": func(path string) error {
			return os.WriteFile(path, []byte("9223372036854775807\n"), 0o600)
		},
		"too high": func(path string) error {
			return os.WriteFile(path, []byte("18446744073709551615\n"), 0o600)
		},
		"too long": func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"a FIFO":   func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
		"a symbolic link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir())
			last := term(t, b)
			must(t, spoil(recordedTerm(t, b)))
			next := term(t, b)
			if next <= last {
				t.Fatalf("term %d comes after term %d", next, last)
			}
			if again := term(t, b); again != next+1 {
				t.Fatalf("term %d comes after term %d: the file was not replaced", again, next)
			}
		})
	}
}

func TestSlotWhoseTermCannotBeRecordedIsNotReady(t *testing.T) {
	b := open(t, t.TempDir())
	l := contend(t, b, mutex)
	path := recordedTerm(t, b)
	must(t, os.Mkdir(path, 0o700)) // which no file replaces
	held, err := l.Acquire(t.Context())
	must(t, err)
	if err := held.Ready(t.Context()); !errors.Is(err, lock.ErrUnsafe) || held.Term() != 0 {
		t.Fatalf("error is %v, want %v; the term is %d, want none", err, lock.ErrUnsafe, held.Term())
	}
	entries, err := filepath.Glob(path + ".*")
	must(t, err)
	if len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
	must(t, os.Remove(path))
	must(t, held.Ready(t.Context())) // as soon as it can be
	must(t, held.Release(t.Context()))
	term(t, b)
}

func TestFullFileSystemIsToldAsSuch(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k")) // needs root
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	filler := filepath.Join(dir, "filler")
	must(t, os.WriteFile(filler, make([]byte, os.Getpagesize()), 0o600))
	b := open(t, dir)
	held := hold(t, b, mutex)
	err := held.Ready(t.Context())
	if !errors.Is(err, lock.ErrUnknown) {
		t.Fatalf("error is %v, want %v", err, lock.ErrUnknown)
	}
	for _, text := range []string{"cannot record the term of slot 1", recordedTerm(t, b), "no space left",
		"free some space on the file system of " + string(b.path(mutex))} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
	must(t, os.Remove(filler))
	must(t, held.Ready(t.Context()))
}

func TestWatchesThatAreUsedUpAreNoMatterOfSpace(t *testing.T) {
	err := failure("cannot use it", "/dir", slotdir.ErrNoWatch, lock.ErrUnreachable)
	if !errors.Is(err, lock.ErrUnreachable) || !strings.Contains(err.Error(), "max_user_watches") ||
		strings.Contains(err.Error(), "space") {
		t.Fatalf("error is %v", err)
	}
}
