package slotdir

import (
	"context"
	"errors"
	"time"
)

// Looks are the pauses after which a waiter looks again although it was
// not woken: a few times after each wake, and after the first attempt, and then
// never more. The kernel reports that a file was closed before it drops the
// flock (in __fput, fsnotify_close comes before locks_remove_file), and a
// process that dies between the two may be off the processor for as long as
// its cgroup is throttled. An attempt right after the wake can therefore still
// meet the flock, and no second event follows.
var Looks = []time.Duration{
	time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond, 64 * time.Millisecond,
	250 * time.Millisecond, time.Second, 4 * time.Second,
}

// Never is the pause of a waiter that only a change wakes.
const Never time.Duration = 0

// ErrUnwatched: the directory that was watched is gone.
var ErrUnwatched = errors.New("the directory was removed or replaced")

// Waiter sleeps until a directory has changed in a way that matters.
type Waiter struct {
	*watcher
	looks []time.Duration
	wake  chan struct{} // holds one value if something changed since Begin
	next  int           // index in looks; owned by the caller of Begin and Wait
}

// Await watches the directory for the changes that matter, from the first Wait on, or soon.
func (d Dir) Await(looks []time.Duration, matters func(Event) bool) (*Waiter, error) {
	w := &Waiter{looks: looks, wake: make(chan struct{}, 1)}
	var err error
	w.watcher, err = watch(string(d), func(e Event) {
		if matters(e) {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	})
	return w, err
}

// Begin is called before each attempt: what changes from here on ends the next
// wait.
func (w *Waiter) Begin() {
	select {
	case <-w.wake:
		w.next = 0
	default:
	}
}

// Wait blocks until something has changed since Begin, one of the few looks is
// due, pause is over, or ctx ends. The first one is over at once: nobody was watching
// before. Errors: ctx's, ErrUnwatched, ErrNoWatch and others of the system's.
func (w *Waiter) Wait(ctx context.Context, pause time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return err
	}
	if w.next < len(w.looks) && (pause == Never || w.looks[w.next] < pause) {
		pause = w.looks[w.next]
		w.next++
	}
	var due <-chan time.Time
	if pause != Never {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.wake:
		w.next = 0
		return nil
	case <-due:
		return nil
	case <-w.done:
		return ErrUnwatched
	}
}
