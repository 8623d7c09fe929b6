package local

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/lock"
)

// answering has a contender answer requests as a supervisor does.
func answering(t *testing.T, l lock.Lock, report lock.Report) {
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		for {
			select {
			case r := <-l.Requests():
				var what any = report
				if r.Verb != lock.AskStatus {
					what = lock.Decision{Accepted: true, Why: string(r.Verb)}
				}
				answer, _ := json.Marshal(what)
				_ = r.Reply(context.Background(), answer)
			case <-ended:
				return
			}
		}
	}()
}

func heldAndAnswering(t *testing.T, b *Backend) lock.Held {
	t.Helper()
	l := contend(t, b, mutex)
	answering(t, l, lock.Report{})
	held, err := l.Acquire(t.Context())
	must(t, err)
	return held
}

func look(t *testing.T, b *Backend, id lock.ID) lock.Status {
	t.Helper()
	status, err := b.Inspector(id).Look(patience(t))
	must(t, err)
	return status
}

func TestLookShowsWhoHoldsWhatAndHowManyWait(t *testing.T) {
	b := open(t, t.TempDir())
	if got := look(t, b, semaphore); len(got.Slots) != 0 || got.Waiting != 0 {
		t.Errorf("a lock that does not exist: %+v", got)
	}
	if got := look(t, b, mutex); len(got.Slots) != 1 || got.Slots[0].State != lock.SlotFree {
		t.Errorf("a mutex that was never used: %+v", got)
	}
	if all, err := os.ReadDir(b.dir); err != nil || len(all) != 0 {
		t.Errorf("looking made %v, %v", all, err)
	}
	resize(t, b, semaphore, 2)
	l := contend(t, b, semaphore)
	answering(t, l, lock.Report{Holder: "here:1", Term: 7, State: "running"})
	held, err := l.Acquire(t.Context())
	must(t, err)
	got := look(t, b, semaphore) // at once, before it listens
	want := lock.Status{Slots: []lock.SlotStatus{
		{Slot: 1, State: lock.SlotHeld, Holder: &lock.Report{Holder: "here:1", Term: 7, State: "running"}},
		{Slot: 2, State: lock.SlotFree},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("one slot of two is held: %+v", got)
	}
	must(t, held.Release(t.Context()))
	if got := look(t, b, semaphore); got.Slots[0].State != lock.SlotFree {
		t.Errorf("it is released: %+v", got)
	}
}

func TestLookCountsThoseWhoWait(t *testing.T) {
	b := open(t, t.TempDir())
	held := heldAndAnswering(t, b)
	won := make(chan lock.Held, 3)
	for range cap(won) {
		l := contend(t, b, mutex)
		answering(t, l, lock.Report{})
		go func() {
			if h, err := obtain(t.Context(), l); err == nil {
				won <- h
			}
		}()
	}
	awaitWaiting(t, b, 3)
	must(t, held.Release(t.Context()))
	next := <-won
	awaitWaiting(t, b, 3) // the first one is still there, and has not said that it will not come back
	must(t, next.Release(t.Context()))
	must(t, (<-won).Release(t.Context()))
	must(t, (<-won).Release(t.Context()))
}

func awaitWaiting(t *testing.T, b *Backend, n int) {
	t.Helper()
	for ctx := patience(t); ; {
		got := look(t, b, mutex)
		if got.Waiting == n {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d wait, want %d", got.Waiting, n)
		}
	}
}

func TestHolderThatWasKilledIsSaidToBe(t *testing.T) {
	b := open(t, t.TempDir())
	end := killedHolder(t, "holder with handover", b.dir)
	must(t, os.MkdirAll(b.path(mutex).SocketsPath(), 0o755))
	_, err := b.path(mutex).NextTerm(1)
	must(t, err)
	got := look(t, b, mutex)
	s := got.Slots[0]
	if s.State != lock.SlotHeld || s.Holder != nil || !strings.Contains(s.Problem, "its holder, of term ") {
		t.Errorf("the guard still has the slot: %+v", s)
	}
	ctx := patience(t)
	if _, err := b.Inspector(mutex).Ask(ctx, 1, lock.AskStepDown); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("it is asked: %v, want %v", err, lock.ErrUnknown)
	}
	must(t, end.Close())
	_, err = obtain(patience(t), contend(t, b, mutex))
	must(t, err)
}

func TestHolderThatDoesNotAnswerIsHeldStill(t *testing.T) {
	b := open(t, t.TempDir())
	held := hold(t, b, mutex)
	got := look(t, b, mutex)
	if s := got.Slots[0]; s.State != lock.SlotHeld || s.Holder != nil || s.Problem != "its holder does not answer" {
		t.Errorf("nobody receives its requests: %+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Inspector(mutex).Ask(ctx, 1, lock.AskReload); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("it is asked: %v, want %v", err, lock.ErrUnknown)
	}
	must(t, held.Verify(t.Context()))
}

// Sockets of holders that were killed lie beside that of the one that does not answer, before it and after it.
func TestDeadHoldersDoNotSpeakForTheLiving(t *testing.T) {
	b := open(t, t.TempDir())
	hold(t, b, mutex)
	look(t, b, mutex) // waits until it listens
	for _, name := range []string{"1-1-00000000", "1-99999999-ffffffff"} {
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(b.path(mutex).SocketsPath(), name)})
		must(t, err)
		dead.SetUnlinkOnClose(false)
		must(t, dead.Close())
	}
	if s := look(t, b, mutex).Slots[0]; s.State != lock.SlotHeld || s.Problem != "its holder does not answer" {
		t.Errorf("it is looked at: %+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*lookPatience)
	defer cancel()
	_, err := b.Inspector(mutex).Ask(ctx, 1, lock.AskStepDown)
	want := "cannot ask the holder of slot 1 of " + mutex.String() + ": its holder does not answer"
	if !errors.Is(err, lock.ErrUnknown) || err.Error() != want {
		t.Errorf("it is asked: %v, want %s", err, want)
	}
}

func TestHolderOfASlotIsAsked(t *testing.T) {
	b := open(t, t.TempDir())
	i := b.Inspector(semaphore)
	resize(t, b, semaphore, 2)
	for _, slot := range []int{1, 2, 3} {
		if _, err := i.Ask(patience(t), slot, lock.AskStepDown); !errors.Is(err, lock.ErrAbsent) {
			t.Errorf("nobody holds slot %d: %v, want %v", slot, err, lock.ErrAbsent)
		}
	}
	hold(t, b, semaphore)
	l := contend(t, b, semaphore)
	answering(t, l, lock.Report{})
	_, err := l.Acquire(t.Context())
	must(t, err)
	answer, err := i.Ask(patience(t), 2, lock.AskStepDown)
	if want := `{"heeded":true,"why":"step-down"}`; err != nil || string(answer) != want {
		t.Errorf("it says %s, %v; want %s", answer, err, want)
	}
}

// A waiter is woken by changes in the lock's directory. Holders and waiters that come, go and are looked at change only
// the one of the sockets.
func TestLookingWakesNobodyWhoWaits(t *testing.T) {
	b := open(t, t.TempDir())
	woken := make(chan string, 100)
	b.woken = func(name string) { woken <- name }
	heldAndAnswering(t, b)
	waits := contend(t, b, mutex)
	full(t, waits)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		for ctx.Err() == nil {
			_ = waits.Wait(ctx, time.Hour)
		}
		done <- nil
	}()
	awaitWaiting(t, b, 1)
	for len(woken) > 0 { // that its directory is watched now
		<-woken
	}
	for range 3 {
		look(t, b, mutex)
	}
	if len(woken) > 0 {
		t.Errorf("woken by %q", <-woken)
	}
	cancel()
	<-done
}

func TestLocksAreListed(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "locks"))
	if _, err := b.Locks(t.Context()); !errors.Is(err, lock.ErrAbsent) || !strings.Contains(err.Error(), b.dir) {
		t.Errorf("where there is no directory: %v, want %v and its name", err, lock.ErrAbsent)
	}
	if _, err := open(t, "/dev/null").Locks(t.Context()); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("in a file: %v, want %v", err, lock.ErrUnknown)
	}
	must(t, os.Mkdir(b.dir, 0o755))
	list := func(want ...lock.ID) {
		t.Helper()
		got, err := b.Locks(t.Context())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("listed are %v, %v; want %v", got, err, want)
		}
	}
	list()
	odd := lock.ID{Kind: lock.Semaphore, Name: "../a b/%"}
	resize(t, b, odd, 3)
	hold(t, b, mutex)
	resize(t, b, persistent, 1)
	resize(t, b, semaphore, 1)
	hold(t, b, semaphore)
	resize(t, b, semaphore, 0)
	must(t, os.Mkdir(filepath.Join(b.dir, "%2"), 0o755))
	must(t, os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600))
	list(odd, mutex, lock.ID{Kind: lock.Semaphore, Name: persistent.Name})
}

func TestOnlyRootLooksAtLocksOfOthers(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	b := open(t, base)
	resize(t, b, semaphore, 1)
	dir := string(b.path(semaphore))
	must(t, os.Lchown(base, nobody, -1))
	must(t, os.Lchown(dir, nobody, -1))
	if got := look(t, b, semaphore); len(got.Slots) != 1 || got.Slots[0].State != lock.SlotFree {
		t.Errorf("another user's lock: %+v", got)
	}
	must(t, os.Chmod(dir, 0o777))
	if _, err := b.Inspector(semaphore).Look(t.Context()); !errors.Is(err, lock.ErrDenied) {
		t.Errorf("everybody may replace its files: %v, want %v", err, lock.ErrDenied)
	}
}
