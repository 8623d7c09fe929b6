package inquire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/internal/config"
	"berth/lock"
	"berth/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var workers = lock.ID{Kind: lock.Semaphore, Name: "workers"}

// holder is a contender that has a slot and answers.
type holder struct {
	lock.Held
	host    string
	term    atomic.Uint64
	asked   chan lock.Verb // what was asked of it beside the status
	refuses bool
}

// hold has a contender on a host take a slot and answer until the test ends.
func hold(t *testing.T, place *locktest.Place, host string) *holder {
	t.Helper()
	l := place.Open(0).Lock(workers)
	if err := l.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{Held: held, host: host, asked: make(chan lock.Verb, 10)}
	h.term.Store(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.answer(ctx, l.Requests())
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return h
}

func (h *holder) answer(ctx context.Context, requests <-chan lock.Request) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-requests:
			if r.Verb == lock.AskStatus {
				answer, _ := json.Marshal(lock.Report{Holder: h.host + ":1", Host: h.host, PID: 1, State: "running",
					Slot: h.Slot(), Term: h.term.Load(), Since: time.Now(), Verified: time.Now()})
				_ = r.Reply(ctx, answer)
				continue
			}
			h.asked <- r.Verb
			answer, _ := json.Marshal(lock.Decision{Accepted: !h.refuses, Why: map[bool]string{true: "no"}[h.refuses]})
			_ = r.Reply(ctx, answer)
		}
	}
}

// about returns an inquiry about a semaphore of some slots.
func about(slots int) (*Inquiry, *locktest.Place, *locktest.Fake) {
	place := locktest.NewPlace()
	for slot := range slots {
		place.AddSlot(workers, slot+1)
	}
	fake := place.Open(0)
	return &Inquiry{Inspector: fake.Inspector(workers), ID: workers}, place, fake
}

func wants(t *testing.T, err, kind error, all ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %v, want %v", err, kind)
		return
	}
	for _, want := range all {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestLockThatDoesNotExistSaysHowToMakeIt(t *testing.T) {
	q, _, _ := about(0)
	q.Naming = []string{"--naming N-A-L"}
	_, err := q.Status(t.Context())
	wants(t, err, lock.ErrAbsent, "berth semaphore create workers --slots N --naming N-A-L")
	_, err = q.StepDown(t.Context(), 0)
	wants(t, err, lock.ErrAbsent, "berth semaphore create workers --slots N")
}

func TestOnlyHolderNeedsNotBeNamed(t *testing.T) {
	q, place, _ := about(3)
	_, err := q.StepDown(t.Context(), 0)
	wants(t, err, lock.ErrAbsent, `semaphore "workers" is not held`)
	h := hold(t, place, "web1")
	asked, err := q.StepDown(t.Context(), 0)
	if err != nil || asked.Slot != 1 || !asked.Decision.Accepted || asked.Holder.Host != "web1" ||
		<-h.asked != lock.AskStepDown {
		t.Errorf("got %+v, %v", asked, err)
	}
}

func TestOneOfSeveralHoldersHasToBeNamed(t *testing.T) {
	q, place, _ := about(3)
	hold(t, place, "web1")
	second := hold(t, place, "web2")
	if asked, err := q.StepDownAny(t.Context(), 0); err != nil || asked.Slot != 1 || !asked.Decision.Accepted {
		t.Errorf("any: %+v, %v", asked, err)
	}
	_, err := q.StepDown(t.Context(), 0)
	wants(t, err, config.ErrUsage, "--slot", "1 (web1, pid 1), 2 (web2, pid 1)")
	second.refuses = true
	asked, err := q.StepDown(t.Context(), 2)
	if err != nil || asked.Decision.Accepted || asked.Decision.Why != "no" {
		t.Errorf("got %+v, %v", asked, err)
	}
	_, err = q.StepDown(t.Context(), 3)
	wants(t, err, lock.ErrAbsent, `slot 3 of semaphore "workers" is not held`)
	_, err = q.StepDown(t.Context(), 4)
	wants(t, err, config.ErrUsage, "the last slot")
}

func TestNoAnswerToARequestSaysWhatItMayBe(t *testing.T) {
	q, place, fake := about(1)
	hold(t, place, "web1")
	fake.Inject(locktest.Ask, locktest.Fault{Before: lock.ErrUnknown})
	_, err := q.StepDown(t.Context(), 0)
	wants(t, err, lock.ErrUnknown, "it is not known whether web1, pid 1, agrees", "look at the status")
	fake.Inject(locktest.Ask, locktest.Fault{Before: lock.ErrUnknown})
	_, err = q.StepDownAny(t.Context(), 0)
	if wants(t, err, lock.ErrUnknown); strings.Contains(err.Error(), "ask again") {
		t.Errorf("a berth that asks by itself is advised: %v", err)
	}
}

func TestReloadIsForOneHolder(t *testing.T) {
	q, place, _ := about(4)
	first := hold(t, place, "web1")
	if asked, err := q.Reload(t.Context(), 0); err != nil || asked.Slot != 1 || <-first.asked != lock.AskReload {
		t.Errorf("the only one: %+v, %v", asked, err)
	}
	second := hold(t, place, "web2")
	_, err := q.Reload(t.Context(), 0)
	wants(t, err, config.ErrUsage, "several holders", "2 (web2, pid 1)")
	if asked, err := q.Reload(t.Context(), 2); err != nil || asked.Slot != 2 || <-second.asked != lock.AskReload {
		t.Errorf("the one that is named: %+v, %v", asked, err)
	}
}

func TestSuccessorIsTheBerthThatRunsNext(t *testing.T) {
	q, place, fake := about(1)
	old := hold(t, place, "web1")
	asked, err := q.StepDown(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	fake.Inject(locktest.Look, locktest.Fault{}, locktest.Fault{Before: lock.ErrUnreachable})
	found := make(chan Successor, 1)
	go func() {
		next, err := q.AwaitSuccessor(t.Context(), asked)
		if err != nil {
			t.Error(err)
		}
		found <- next
	}()
	for fake.Calls(locktest.Look) < 4 { // the old one runs on for a while, and the broker is away for a moment
		time.Sleep(time.Millisecond)
	}
	if err := old.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	hold(t, place, "web2")
	next := <-found
	if next.Holder.Host != "web2" || next.Gap > next.After || next.Gap < 0 {
		t.Errorf("got %+v", next)
	}
}

func TestSameBerthInANewHoldingIsASuccessor(t *testing.T) {
	q, place, _ := about(1)
	h := hold(t, place, "web1")
	asked, err := q.StepDown(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	h.term.Store(2)
	next, err := q.AwaitSuccessor(t.Context(), asked)
	if err != nil || next.Holder.Host != "web1" || next.Holder.Term != 2 {
		t.Errorf("got %+v, %v", next, err)
	}
}

// A holder that accepts a request holds the slot when it is asked, whatever its successor's clock says.
func TestSlotIsNobodysOnlyAfterTheRequest(t *testing.T) {
	q, place, _ := about(1)
	hold(t, place, "web1")
	asked, err := q.StepDown(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if next := asked.succeededBy(lock.Report{}); next.Gap > next.After {
		t.Errorf("nobody's for %s, %s after it was asked", next.Gap, next.After)
	}
}

func TestSuccessorMayNeverCome(t *testing.T) {
	q, place, fake := about(1)
	hold(t, place, "web1")
	asked, err := q.StepDown(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	_, err = q.AwaitSuccessor(ctx, asked)
	wants(t, err, lock.ErrUnknown, "(web1, pid 1) agreed, but no command runs after it in slot 1")
	fake.Inject(locktest.Look, locktest.Fault{Before: lock.ErrDenied})
	_, err = q.AwaitSuccessor(t.Context(), asked)
	wants(t, err, lock.ErrDenied)
	if _, _, err := place.Open(0).Administrator(workers).Resize(t.Context(), 1,
		func(int) (int, error) { return 0, nil }); err != nil {
		t.Fatal(err)
	}
	_, err = q.AwaitSuccessor(t.Context(), asked)
	wants(t, err, lock.ErrAbsent, "was removed")
}

func TestWatchTellsChangesAndOutlivesABroker(t *testing.T) {
	q, place, fake := about(2)
	seen := make(chan Seen, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Watch(ctx, 0, func(s Seen) { seen <- s }) }()
	news := func() Seen {
		for s := range seen {
			if s.News {
				return s
			}
		}
		return Seen{}
	}
	if first := news(); len(first.Changed) > 0 || len(first.Status.Slots) != 2 {
		t.Errorf("first: %+v", first)
	}
	h := hold(t, place, "web1")
	if next := news(); fmt.Sprint(next.Changed) != "[1]" || next.Status.Slots[0].Holder == nil {
		t.Errorf("a slot was taken: %+v", next)
	}
	fake.InjectAlways(locktest.Look, locktest.Fault{Before: lock.ErrUnreachable})
	if next := news(); !errors.Is(next.Err, lock.ErrUnreachable) || len(next.Status.Slots) != 2 {
		t.Errorf("the broker is away: %+v", next)
	}
	h.term.Store(7)
	fake.InjectAlways(locktest.Look, locktest.Fault{})
	if next := news(); next.Err != nil || fmt.Sprint(next.Changed) != "[1]" || next.Status.Slots[0].Holder.Term != 7 {
		t.Errorf("it is back: %+v", next)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	fake.InjectAlways(locktest.Look, locktest.Fault{Before: lock.ErrDenied})
	wants(t, q.Watch(t.Context(), 0, func(Seen) {}), lock.ErrDenied)
}
