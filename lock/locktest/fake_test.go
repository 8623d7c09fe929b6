package locktest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/lock"
	"berth/lock/conformance"
	"berth/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var mutex = lock.ID{Kind: lock.Mutex, Name: "m"}

func TestFakeConforms(t *testing.T) {
	place := locktest.NewPlace()
	conformance.Run(t, conformance.Harness{
		Open:      func(*testing.T) lock.Backend { return place.Open(time.Hour) },
		OpenBrief: func(*testing.T) lock.Backend { return place.Open(300 * time.Millisecond) },
		AddSlot:   func(_ *testing.T, id lock.ID, slot int) { place.AddSlot(id, slot) },
	})
}

// connected returns a fake and a contender of it.
func connected(t *testing.T, place *locktest.Place) (*locktest.Fake, lock.Lock) {
	t.Helper()
	fake := place.Open(10 * time.Second)
	l := fake.Lock(mutex)
	t.Cleanup(func() { _ = l.Close() })
	if err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fake, l
}

func acquired(t *testing.T, l lock.Lock) lock.Held {
	t.Helper()
	held, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want %v", err, target)
	}
}

func TestFaultBeforeChangesNothing(t *testing.T) {
	place := locktest.NewPlace()
	fake, l := connected(t, place)
	fake.Inject(locktest.Acquire, locktest.Fault{Before: lock.ErrUnknown})
	_, err := l.Acquire(t.Context())
	want(t, err, lock.ErrUnknown)
	if place.Held(mutex, 1) {
		t.Fatal("the slot is held")
	}
	acquired(t, l)
	if n := fake.Calls(locktest.Acquire); n != 2 {
		t.Fatalf("%d calls counted, want 2", n)
	}
}

func TestFaultAfterHasChangedTheState(t *testing.T) {
	place := locktest.NewPlace()
	fake, l := connected(t, place)
	_, other := connected(t, place)
	fake.Inject(locktest.Acquire, locktest.Fault{After: lock.ErrUnknown})
	_, err := l.Acquire(t.Context())
	want(t, err, lock.ErrUnknown)
	_, err = other.Acquire(t.Context())
	want(t, err, lock.ErrFull)
	held := acquired(t, l)
	fake.Inject(locktest.Release, locktest.Fault{After: lock.ErrUnknown})
	want(t, held.Release(t.Context()), lock.ErrUnknown)
	acquired(t, other)
}

func TestBlockedCallEndsWithItsContextOrItsRelease(t *testing.T) {
	fake, l := connected(t, locktest.NewPlace())
	held := acquired(t, l)
	gate := make(chan struct{})
	fake.InjectAlways(locktest.Verify, locktest.Fault{Block: gate})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- held.Verify(ctx) }()
	cancel()
	want(t, <-done, context.Canceled)
	go func() { done <- held.Verify(t.Context()) }()
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	fake.InjectAlways(locktest.Verify, locktest.Fault{BlockAfter: make(chan struct{})})
	want(t, held.Verify(ctx), context.Canceled)
	fake.InjectAlways(locktest.Verify, locktest.Fault{})
	if err := held.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReportedLossClosesLostAndKeepsTheSlot(t *testing.T) {
	place := locktest.NewPlace()
	fake, l := connected(t, place)
	held := acquired(t, l)
	cause := errors.New("the cause")
	fake.ReportLost(mutex, cause)
	<-held.Lost()
	want(t, held.Cause(), cause)
	if !place.Held(mutex, 1) {
		t.Fatal("the slot is not held any more")
	}
}

func TestReclaimEndsADoubtAndVerifyDoesNot(t *testing.T) {
	fake, l := connected(t, locktest.NewPlace())
	held := acquired(t, l)
	fake.ReportLost(mutex, lock.ErrInDoubt)
	want(t, held.Verify(t.Context()), lock.ErrInDoubt)
	if err := held.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-held.Lost():
		t.Fatal("Lost is closed after the doubt has ended")
	default:
	}
	want(t, held.Cause(), nil)
	if err := held.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTakenSlotIsLostAndObtainableByOthers(t *testing.T) {
	place := locktest.NewPlace()
	_, l := connected(t, place)
	_, other := connected(t, place)
	held := acquired(t, l)
	place.Take(mutex, 1)
	next := acquired(t, other)
	want(t, held.Verify(t.Context()), lock.ErrLost)
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := next.Verify(t.Context()); err != nil {
		t.Fatalf("the release of a lost slot ended the next holding: %v", err)
	}
}

func TestUnreachableNeedsConnect(t *testing.T) {
	fake, l := connected(t, locktest.NewPlace())
	fake.Inject(locktest.Acquire, locktest.Fault{Before: lock.ErrUnreachable})
	for range 2 {
		_, err := l.Acquire(t.Context())
		want(t, err, lock.ErrUnreachable)
	}
	if err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	held := acquired(t, l)
	if held.Lease() != 10*time.Second {
		t.Fatalf("lease is %v", held.Lease())
	}
}

func TestLookSaysWhoHoldsWhatAndWhoIsSilent(t *testing.T) {
	place := locktest.NewPlace()
	id := lock.ID{Kind: lock.Semaphore, Name: "s"}
	place.AddSlot(id, 1)
	place.AddSlot(id, 2)
	fake := place.Open(0)
	l := fake.Lock(id)
	if err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquired(t, l)
	inspector := place.Open(0).Inspector(id)
	status, err := inspector.Look(t.Context()) // nobody receives requests
	if err != nil || len(status.Slots) != 2 || status.Slots[0].State != lock.SlotHeld ||
		status.Slots[0].Problem == "" || status.Slots[1].State != lock.SlotFree {
		t.Errorf("a silent holder: %+v, %v", status, err)
	}
	go func() {
		request := <-l.Requests()
		_ = request.Reply(t.Context(), []byte(`{"host":"web1"}`))
	}()
	status, err = inspector.Look(t.Context())
	if err != nil || status.Slots[0].Holder == nil || status.Slots[0].Holder.Host != "web1" {
		t.Errorf("a holder that answers: %+v, %v", status, err)
	}
	_, err = inspector.Ask(t.Context(), 2, lock.AskStatus)
	want(t, err, lock.ErrAbsent)
}
