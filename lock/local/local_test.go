package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/lock/local/slotdir"
)

var (
	mutex      = lock.ID{Kind: lock.Mutex, Name: "m"}
	semaphore  = lock.ID{Kind: lock.Semaphore, Name: "s"}
	persistent = lock.ID{Kind: lock.PersistentMutex, Name: "p"}
)

// patience is how long anything may take before a test has failed.
func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func contend(t *testing.T, b *Backend, id lock.ID) lock.Lock {
	t.Helper()
	l := b.Lock(id)
	t.Cleanup(func() { _ = l.Close() })
	if err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func hold(t *testing.T, b *Backend, id lock.ID) lock.Held {
	t.Helper()
	held, err := contend(t, b, id).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// obtain waits for a slot, and never for a pause.
func obtain(ctx context.Context, l lock.Lock) (lock.Held, error) {
	for {
		held, err := l.Acquire(ctx)
		if err == nil || !errors.Is(err, lock.ErrFull) {
			return held, err
		}
		if err := l.Wait(ctx, time.Hour); err != nil {
			return nil, err
		}
	}
}

func resize(t *testing.T, b *Backend, id lock.ID, slots int) {
	t.Helper()
	if _, _, err := b.Administrator(id).Resize(t.Context(), 0,
		func(int) (int, error) { return slots, nil }); err != nil {
		t.Fatal(err)
	}
}

func full(t *testing.T, l lock.Lock) {
	t.Helper()
	if _, err := l.Acquire(t.Context()); !errors.Is(err, lock.ErrFull) {
		t.Fatalf("error is %v, want %v", err, lock.ErrFull)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLossIsReportedAtOnce(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, b *Backend, dir slotdir.Dir){
		"slot removed by administration": func(t *testing.T, b *Backend, _ slotdir.Dir) { resize(t, b, semaphore, 0) },
		"slot file removed by hand": func(t *testing.T, _ *Backend, dir slotdir.Dir) {
			must(t, os.Remove(dir.SlotPath(1)))
		},
		"lock file removed by hand": func(t *testing.T, _ *Backend, dir slotdir.Dir) {
			must(t, os.Remove(dir.LockPath(1)))
		},
		"lock file replaced": func(t *testing.T, _ *Backend, dir slotdir.Dir) {
			other := filepath.Join(string(dir), "other")
			must(t, os.WriteFile(other, nil, 0o600))
			must(t, os.Rename(other, dir.LockPath(1)))
		},
		"directory removed": func(t *testing.T, _ *Backend, dir slotdir.Dir) { must(t, os.RemoveAll(string(dir))) },
		"directory moved": func(t *testing.T, _ *Backend, dir slotdir.Dir) {
			must(t, os.Rename(string(dir), string(dir)+"2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir())
			resize(t, b, semaphore, 1)
			held := hold(t, b, semaphore)
			must(t, held.Verify(t.Context()))
			remove(t, b, b.path(semaphore))
			select {
			case <-held.Lost():
			case <-patience(t).Done():
				t.Fatal("the loss was not reported")
			}
			if err := held.Verify(t.Context()); !errors.Is(held.Cause(), lock.ErrLost) ||
				!errors.Is(err, lock.ErrLost) {
				t.Fatalf("cause is %v, verification says %v", held.Cause(), err)
			}
			must(t, held.Release(t.Context()))
		})
	}
}

func TestRemovalOfOneSlotIsNotReportedToOtherHolders(t *testing.T) {
	b := open(t, t.TempDir())
	resize(t, b, semaphore, 2)
	first, second := hold(t, b, semaphore), hold(t, b, semaphore)
	resize(t, b, semaphore, 1)
	<-second.Lost()
	select {
	case <-first.Lost():
		t.Fatal(first.Cause())
	default:
		must(t, first.Verify(t.Context()))
	}
}

func TestVerificationThatCannotLookIsUnknown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	b := open(t, dir)
	resize(t, b, semaphore, 1)
	for _, id := range []lock.ID{mutex, semaphore} {
		held := hold(t, b, id)
		must(t, os.Rename(dir, dir+"2"))
		must(t, os.Symlink(dir, dir)) // leads to itself: nobody can say what is behind it
		err := held.Verify(t.Context())
		must(t, os.Remove(dir))
		must(t, os.Rename(dir+"2", dir))
		if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: error is %v, want %v", id, err, lock.ErrUnknown)
		}
		must(t, held.Verify(t.Context()))
	}
}

func TestDirectoryThatCannotBeMadeIsRefused(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	long := filepath.Join(dir, strings.Repeat("l", unix.NAME_MAX+1))
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Symlink(filepath.Join(dir, "nowhere"), link))
	for path, names := range map[string]string{
		"/sys/berth":          "/sys/berth", // not even root can make directories there
		"/proc":               "/proc/m",    // nor there, where that is called a lack of something
		"/proc/berth":         "/proc/berth",
		"/proc/berth/deeper":  "/proc/berth",
		file:                  file,
		file + "/deeper/base": file,
		link:                  link,
		link + "/deeper/base": link,
		long:                  long,
	} {
		l := open(t, path).Lock(mutex)
		err := l.Connect(t.Context())
		if !errors.Is(err, lock.ErrDenied) || !strings.Contains(err.Error(), names) ||
			!strings.Contains(err.Error(), "--broker local:///DIRECTORY") {
			t.Errorf("%s: error is %v, want %v, the path and what to do", path, err, lock.ErrDenied)
		}
		must(t, l.Close())
	}
}

// It can be made again, so it is not refused.
func TestDirectoryThatVanishesMeanwhileIsNotRefused(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	b := open(t, base)
	over := make(chan struct{})
	var others sync.WaitGroup
	for _, disturb := range []func() error{
		func() error { return os.RemoveAll(base) },
		func() error { return os.MkdirAll(string(b.path(semaphore)), 0o755) },
	} {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					_ = disturb()
				}
			}
		})
	}
	for range 3000 {
		if err := b.path(mutex).Make(); errors.Is(err, lock.ErrDenied) {
			t.Errorf("refused: %v", err)
			break
		}
	}
	close(over)
	others.Wait()
}

func TestDirectoryThatIsRemovedIsMadeAgainByConnect(t *testing.T) {
	b := open(t, t.TempDir())
	for what, prepare := range map[string]func(id lock.ID){
		"free": func(lock.ID) {},
		"held": func(id lock.ID) { hold(t, b, id) },
	} {
		id := lock.ID{Kind: lock.Mutex, Name: what}
		l := contend(t, b, id)
		prepare(id)
		must(t, os.RemoveAll(string(b.path(id))))
		ctx := patience(t)
		if _, err := l.Acquire(ctx); !errors.Is(err, lock.ErrUnreachable) {
			t.Fatalf("%s: error is %v, want %v", what, err, lock.ErrUnreachable)
		}
		must(t, l.Connect(ctx))
		_, err := obtain(ctx, l)
		must(t, err)
	}
}

func TestWaitEndsWhenTheDirectoryIsRemoved(t *testing.T) {
	b := open(t, t.TempDir())
	l := contend(t, b, semaphore)
	must(t, os.RemoveAll(string(b.path(semaphore))))
	ctx := patience(t)
	var err error
	for err == nil {
		err = l.Wait(ctx, time.Hour)
	}
	if !errors.Is(err, lock.ErrUnreachable) {
		t.Fatalf("error is %v, want %v", err, lock.ErrUnreachable)
	}
}

func TestSlotBeyondAGapIsNotObtainable(t *testing.T) {
	b := open(t, t.TempDir())
	resize(t, b, semaphore, 1)
	hold(t, b, semaphore)
	l := contend(t, b, semaphore)
	must(t, b.path(semaphore).MakeSlot(3))
	full(t, l)
	resize(t, b, semaphore, 2) // does not turn the leftover into a third slot
	hold(t, b, semaphore)
	full(t, l)
}

// Waiters that look in vain must not wake each other, or they would for ever, and
// an inspection disturbs nobody.
func TestFailedAttemptsWakeNobody(t *testing.T) {
	const waiters, attempts = 5, 20
	dir := t.TempDir()
	resize(t, open(t, dir), semaphore, 3)
	for range 3 {
		hold(t, open(t, dir), semaphore)
	}
	place := open(t, dir).path(semaphore)
	var wakes [waiters]atomic.Int32
	var heard [waiters]sync.Map // slots that were made
	var all [waiters]lock.Lock
	// Events come in order: a waiter that has heard of a slot has heard of all that was before.
	everybodyHears := func(slot int) {
		must(t, place.MakeSlot(slot))
		for i := range heard {
			for ctx := patience(t); ; time.Sleep(time.Millisecond) {
				if _, told := heard[i].Load(filepath.Base(place.SlotPath(slot))); told {
					break
				}
				if ctx.Err() != nil {
					t.Fatalf("waiter %d was not told of slot %d", i, slot)
				}
			}
		}
	}
	for i := range all {
		b := open(t, dir)
		b.woken = func(name string) {
			if name == "98.slot" || name == "99.slot" {
				heard[i].Store(name, true)
			} else {
				wakes[i].Add(1)
			}
		}
		all[i] = contend(t, b, semaphore)
		full(t, all[i])
		must(t, all[i].Wait(patience(t), time.Hour)) // from here on it watches
	}
	everybodyHears(98)
	for i := range wakes {
		wakes[i].Store(0)
	}
	for range attempts {
		for _, l := range all {
			full(t, l)
		}
		must(t, open(t, dir).Inspect(semaphore))
	}
	everybodyHears(99)
	for i := range wakes {
		if n := wakes[i].Load(); n != 0 {
			t.Errorf("waiter %d was woken %d times by attempts that failed", i, n)
		}
	}
}

// After its few looks a waiter sleeps until there is an event.
func TestIdleWaiterLooksAFewTimesAndThenNoMore(t *testing.T) {
	dir := t.TempDir()
	hold(t, open(t, dir), mutex)
	b := open(t, dir)
	b.looks = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	l := contend(t, b, mutex)
	full(t, l)
	for returns := 0; ; returns++ {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := l.Wait(ctx, time.Hour)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		must(t, err)
		// Once because nobody was watching before, which may be told when it has looked already.
		if returns > 2*len(b.looks) {
			t.Fatal("it goes on looking")
		}
		full(t, l)
	}
}

// The kernel tells of the close before it drops the flock.
func TestWakeThatComesBeforeTheUnlockIsNotLost(t *testing.T) {
	b := open(t, t.TempDir())
	l := contend(t, b, mutex)
	dying, err := b.path(mutex).Claim(1)
	must(t, err)
	full(t, l)
	must(t, dying.Files()[1].Close())
	must(t, l.Wait(patience(t), time.Hour))
	full(t, l)
	must(t, dying.Files()[0].Close()) // no event
	must(t, l.Wait(patience(t), time.Hour))
	_, err = obtain(patience(t), l)
	must(t, err)
}

// No event tells that an attempt which could not look may be repeated.
func TestWaitAfterAnAttemptThatCouldNotLookIsOverAfterThePause(t *testing.T) {
	b := open(t, t.TempDir())
	b.looks = nil
	l := contend(t, b, mutex)
	for range 3 {
		if _, err := withoutDescriptors(t, l); !errors.Is(err, lock.ErrUnknown) {
			t.Fatalf("error is %v, want %v", err, lock.ErrUnknown)
		}
		must(t, l.Wait(patience(t), time.Millisecond))
	}
	must(t, l.Wait(patience(t), 0))
}

// withoutDescriptors attempts to acquire while the process may open nothing.
func withoutDescriptors(t *testing.T, l lock.Lock) (lock.Held, error) {
	t.Helper()
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	return l.Acquire(t.Context())
}

func TestManySlotsDoNotKeepFilesOpen(t *testing.T) {
	const slots = 100
	b := open(t, t.TempDir())
	resize(t, b, semaphore, slots)
	for slot := 1; slot <= slots; slot++ {
		c, err := b.path(semaphore).Claim(slot)
		must(t, err)
		t.Cleanup(func() { _ = c.Free() })
	}
	l := contend(t, b, semaphore)
	before := openFiles(t)
	full(t, l)
	if after := openFiles(t); after > before {
		t.Fatalf("an attempt left %d files open", after-before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}
