// Package calls asks the lock beside the supervisor's loop: one call at a time, whose
// result comes over a channel.
//
//	c := calls.New(l, timeout)
//	c.Verify(held, lossAt)
//	result := <-c.Results // then, before anything else:
//	c.Returned()
//
// It knows what proves that a slot is held, and whether a Verify or a Reclaim is due.
// It knows neither states nor guards, and decides nothing that a result means.
package calls

import (
	"context"
	"errors"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/supervisor/machine"
)

// ReleaseTimeout bounds giving a slot back. What is not confirmed by then is freed by
// closing what held it, and its successor waits the handover delay if the release does not
// arrive. That is longer than a broker takes that is well, and short enough for a user who
// has told berth to end beside one that is not.
const ReleaseTimeout = 2500 * time.Millisecond

// Result is what a call returned.
type Result struct {
	On    machine.Event
	Err   error            // nil if it succeeded
	Held  lock.Held        // Acquired
	Since boottime.Instant // Ready, Verified: when the proof that the slot is held began
}

// Calls are the calls for one lock. All of it belongs to one goroutine. Use New.
type Calls struct {
	Results chan Result // of the call under way
	Doubts  chan error  // why the slot is in doubt that Verify goes on to reclaim, if that takes long

	lock      lock.Lock
	timeout   time.Duration
	ctx       context.Context
	cancel    context.CancelFunc // ends every call
	cancelNow context.CancelFunc // ends the call under way, nil: there is none
	next      func()             // begins when that one has returned, nil: none
}

// New returns the calls for a lock; timeout bounds one verification.
func New(l lock.Lock, timeout time.Duration) *Calls {
	ctx, cancel := context.WithCancel(context.Background())
	return &Calls{Results: make(chan Result, 1), Doubts: make(chan error, 1), lock: l, timeout: timeout, ctx: ctx,
		cancel: cancel}
}

// begin makes a call beside the loop, whose result is done or failed. Another call is
// cancelled first, and its result handled before this one begins: a slot that was won
// in the last moment is not forgotten.
func (c *Calls) begin(done, failed machine.Event, call func(context.Context, *Result) error) {
	start := func() {
		ctx, cancel := context.WithCancel(c.ctx)
		c.cancelNow = cancel
		go func() {
			r := Result{On: done}
			if err := call(ctx, &r); err != nil {
				r = Result{On: failed, Err: err}
			}
			c.Results <- r
		}()
	}
	if !c.Cancel() {
		start()
		return
	}
	c.next = start
}

// UnderWay reports whether a result is to be expected.
func (c *Calls) UnderWay() bool { return c.cancelNow != nil }

// Cancel ends the call under way, whose result will come all the same. It reports
// whether there is one.
func (c *Calls) Cancel() bool {
	if c.UnderWay() {
		c.cancelNow()
	}
	return c.UnderWay()
}

// Returned is for a result that was received: the next call may begin.
func (c *Calls) Returned() {
	c.cancelNow()
	c.cancelNow = nil
	select {
	case <-c.Doubts: // the result says how it has come out
	default:
	}
	if begin := c.next; begin != nil {
		c.next = nil
		begin()
	}
}

// Close cancels everything, gives a slot back that is won nevertheless, and reports
// whether the call under way has returned within patience.
func (c *Calls) Close(patience time.Duration) (returned bool) {
	c.cancel()
	if !c.UnderWay() {
		return true
	}
	select {
	case r := <-c.Results:
		c.cancelNow()
		if r.Held != nil {
			ctx, cancel := context.WithTimeout(context.Background(), ReleaseTimeout)
			defer cancel()
			_ = r.Held.Release(ctx)
		}
		return true
	case <-time.After(patience):
		return false
	}
}

// Connect begins to reach the backend.
func (c *Calls) Connect() {
	c.begin(machine.Connected, machine.NotConnected, func(ctx context.Context, _ *Result) error {
		return c.lock.Connect(ctx)
	})
}

// Attempt begins one attempt at a slot.
func (c *Calls) Attempt() {
	c.begin(machine.Acquired, machine.NotAcquired, func(ctx context.Context, r *Result) (err error) {
		r.Held, err = c.lock.Acquire(ctx)
		return err
	})
}

// Wait begins to wait until another attempt is worthwhile.
func (c *Calls) Wait(pause time.Duration) {
	c.begin(machine.Woken, machine.NotWoken, func(ctx context.Context, _ *Result) error {
		return c.lock.Wait(ctx, pause)
	})
}

// Release begins to give the slot back.
func (c *Calls) Release(held lock.Held) {
	c.begin(machine.Released, machine.Released, func(ctx context.Context, _ *Result) error {
		ctx, cancel := context.WithTimeout(ctx, ReleaseTimeout)
		defer cancel()
		return held.Release(ctx)
	})
}

// Prepare begins to wait until the command may start in a slot that was won, and proves
// once more that it is still ours where the proof that came with that is not good enough.
func (c *Calls) Prepare(held lock.Held, enough func(proven boottime.Instant) bool) {
	c.begin(machine.Ready, machine.NotReady, func(ctx context.Context, r *Result) (err error) {
		if err = held.Ready(ctx); err != nil {
			return err
		}
		if r.Since = held.Proven(); !enough(r.Since) {
			r.Since, err = c.prove(ctx, held, 0, nil)
		}
		return err
	})
}

// PrepareAgain is Prepare for another start in the same slot. There is nothing to wait
// for, and the slot may have to be reclaimed, which Ready does not do.
func (c *Calls) PrepareAgain(held lock.Held, lossAt boottime.Instant) {
	c.begin(machine.Ready, machine.NotReady, func(ctx context.Context, r *Result) (err error) {
		if r.Since, err = c.prove(ctx, held, lossAt, nil); err != nil {
			return err
		}
		return held.Ready(ctx)
	})
}

// Verify begins to prove that the slot is held, which is of use until lossAt, 0: for
// ever.
func (c *Calls) Verify(held lock.Held, lossAt boottime.Instant) {
	c.begin(machine.Verified, machine.Unverified, func(ctx context.Context, r *Result) (err error) {
		r.Since, err = c.prove(ctx, held, lossAt, c.Doubts)
		return err
	})
}

// prove verifies a slot, or reclaims one that is in doubt. What it proves counts from
// since, the beginning of the call.
//
// What held a slot can be damaged without the backend having told so: a record that
// is missing, for example. A connection that is gone takes many answers to make and to
// claim the slot over. Either gets the time that there is. doubts is told of the first, of
// which the backend says nothing, if it is not mended in the time for one verification.
func (c *Calls) prove(
	ctx context.Context, held lock.Held, lossAt boottime.Instant, doubts chan<- error,
) (since boottime.Instant, err error) {
	since = boottime.Now()
	overdue := time.NewTimer(c.timeout)
	defer overdue.Stop()
	if !errors.Is(held.Cause(), lock.ErrInDoubt) {
		err = within(ctx, c.timeout, held.Verify)
		if !errors.Is(err, lock.ErrInDoubt) || held.Cause() != nil {
			return since, err
		}
	}
	limit := c.timeout
	if lossAt != 0 {
		limit = max(limit, lossAt.Until())
	}
	reclaimed := make(chan error, 1)
	go func() { reclaimed <- within(ctx, limit, held.Reclaim) }()
	select {
	case result := <-reclaimed:
		return since, result
	case <-overdue.C:
	}
	if err != nil && doubts != nil {
		doubts <- err // there is room: each result empties it
	}
	return since, <-reclaimed
}

// within makes a call that may take so long.
func within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}
