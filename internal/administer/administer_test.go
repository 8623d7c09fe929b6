package administer

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/internal/config"
	"berth/lock"
)

func TestTargetOfAResize(t *testing.T) {
	for _, c := range []struct {
		request Request
		present int
		want    int // 0: refused
	}{
		{Request{Slots: 7}, 3, 7},
		{Request{Add: 2}, 3, 5},
		{Request{Remove: 2}, 3, 1},
		{Request{Remove: 3}, 3, 0},
		{Request{Remove: 4}, 3, 0},
		{Request{Add: lock.MaxSlots}, 1, 0},
	} {
		got, err := (&Action{ID: lock.ID{Kind: lock.Semaphore}, Request: c.request}).target(c.present)
		if got != c.want || (err == nil) == (c.want == 0) || (err != nil && !errors.Is(err, config.ErrUsage)) {
			t.Errorf("%+v of %d: got %d, %v", c.request, c.present, got, err)
		}
	}
}

func TestCommandThatFinishesAnActionCanBeGivenTwice(t *testing.T) {
	for _, c := range []struct {
		kind                lock.Kind
		name                string
		command             string
		request             Request
		before, after, want int
		text                string
	}{
		{lock.Semaphore, "a lock", "berth semaphore resize", Request{Add: 5}, 10, 13, 15,
			"berth semaphore resize 'a lock' --slots 15"},
		{lock.Semaphore, "a lock", "berth semaphore create", Request{Slots: 9}, 0, 4, 9,
			"berth semaphore resize 'a lock' --slots 9"},
		{lock.Semaphore, "a lock", "berth semaphore create", Request{Slots: 9}, 0, 0, 9,
			"berth semaphore create 'a lock' --slots 9"},
		{lock.Semaphore, "a lock", "berth semaphore resize", Request{Remove: 2, Wait: true}, 10, 8, 8,
			"berth semaphore resize 'a lock' --slots 8 --wait"},
		{lock.Semaphore, "a lock", "berth semaphore resize", Request{Remove: 40, Wait: true}, 50, 10, 10,
			"berth semaphore resize 'a lock' --slots 10 --wait --sweep 40"},
		{lock.Semaphore, "a lock", "berth semaphore destroy", Request{Wait: true}, 10, 0, 0,
			"berth semaphore destroy 'a lock' --wait"},
		{lock.Semaphore, "a lock", "berth semaphore destroy", Request{Ascending: true}, 40, 0, 0,
			"berth semaphore destroy 'a lock' --sweep 40"},
		{lock.PersistentMutex, "a lock", "berth persistent-mutex enable", Request{}, 0, 0, 1,
			"berth persistent-mutex enable 'a lock'"},
		{lock.Semaphore, "-x", "berth semaphore resize", Request{Add: 5, Wait: true}, 10, 13, 15,
			"berth semaphore resize --slots 15 --wait -- -x"},
		{lock.PersistentMutex, "-x", "berth persistent-mutex disable", Request{}, 1, 1, 0,
			"berth persistent-mutex disable -- -x"},
	} {
		c.request.Sweep = DefaultSweep
		a := &Action{Administrator: seen{}, ID: lock.ID{Kind: c.kind, Name: c.name}, Request: c.request,
			Command: c.command}
		if got := a.again(c.before, c.after, c.want); got != c.text {
			t.Errorf("got %q, want %q", got, c.text)
		}
	}
}

// seen is an administrator that has seen something of the lock.
type seen struct {
	lock.Administrator
	flags []string
}

func (s seen) Flags() []string { return s.flags }

// Without it, the pasted command would change another lock.
func TestCommandThatFinishesAnActionKeepsTheNamingAndTheType(t *testing.T) {
	for name, text := range map[string]string{
		"x":  "berth token-semaphore resize x --slots 3 --naming N-A-L --queue-type quorum",
		"-x": "berth token-semaphore resize --slots 3 --naming N-A-L --queue-type quorum -- -x",
	} {
		a := &Action{Administrator: seen{flags: []string{"--queue-type quorum"}}, ID: lock.ID{Kind: lock.TokenSemaphore, Name: name},
			Naming: []string{"--naming N-A-L"}}
		if got := a.again(1, 2, 3); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// busy is an administrator that finds another at work for ever.
type busy struct{ lock.Administrator }

func (busy) Resize(ctx context.Context, _ int, _ func(int) (int, error)) (int, int, error) {
	<-ctx.Done()
	return 0, 0, lock.ErrBusy
}

func TestAnotherAdministratorIsNotWaitedForWithoutLimit(t *testing.T) {
	a := &Action{Administrator: busy{}, Request: Request{Wait: true}, Patience: time.Millisecond}
	_, _, err := a.change(t.Context(), 0, func(int) (int, error) { return 0, nil })
	if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
