package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

const (
	// lookAgain is when one that is next and has seen no B looks once more before it
	// claims it: a holder whose connection was reset has it back within milliseconds.
	lookAgain = 500 * time.Millisecond

	// lackAgain is when one that is next and has no baton looks once more whether it has
	// come, and then makes one: longer than one takes that is there already.
	lackAgain = 50 * time.Millisecond

	// outLook is how often one that waits away from the door looks whether something has
	// come to the ledger.
	outLook = 100 * time.Millisecond

	// comeBackTries bounds the attempts to take the place at the door again, which take
	// two seconds then.
	comeBackTries = 10

	// leaveAlone is for how long one that is next does not claim a B that it has given
	// back to its holder.
	leaveAlone = time.Second

	// looksApart is after how many turns one that is next looks at B where a look costs a
	// connection.
	looksApart = 4
)

// wait is the time between the door and the start.
type wait struct {
	*Held
	door   *ledger.Door
	asNext bool   // it goes on to wait when the holder has asked for the slot
	absent bool   // B was not there when it was last looked at
	turns  int    // since the last look at B
	told   uint64 // the term whose end the user was told is waited for; 0: none

	notBefore time.Time // that B is claimed: its holder lives
}

// await returns when the proof began with which the command may start.
//
// While it waits it proves now and then that it is still next, so that it can start at
// once: a release that it hears of may have lain in the socket for as long as this
// process was stopped.
func (w *wait) await(ctx context.Context) (boottime.Instant, error) {
	turn := w.lease / 4
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		changed := w.door.Changed()
		_, claim := w.place()
		switch {
		case ctx.Err() != nil:
			return 0, w.gaveUp(ctx)
		case w.out && (w.mayStart || w.recorded && w.door.Over()):
			if err := w.comeBack(ctx); err != nil {
				return 0, err
			}
			continue
		case !w.out && transport.IsClosed(w.door.Ended()):
			return 0, w.lostDoor()
		case w.recorded && w.door.Disowned():
			return 0, w.lose("its guard has released it")
		case claim != nil && w.door.Echoed():
			if err := w.handBack(ctx, claim); err != nil {
				return 0, err
			}
			look.Reset(turn)
			continue
		case w.mayStart || w.recorded && (w.first || w.door.Over()):
			if since := w.door.Proven(); since.Add(w.lease/2).Until() > 0 {
				return since, nil
			}
			if err := w.door.Prove(ctx); err != nil {
				return 0, w.judgeDoor(err)
			}
			if claim != nil {
				if err := w.judge(w.proveB(ctx), "its queue is gone"); err != nil {
					return 0, err
				}
			}
			continue
		case claim != nil && claim.watch == nil:
			if err := w.judge(w.proveB(ctx), "its queue is gone"); err != nil {
				return 0, err
			}
			continue
		case claim != nil && !w.out:
			if err := w.door.StepOut(ctx); err != nil {
				return 0, w.judgeDoor(err)
			}
			if w.out = true; w.alone.IsZero() {
				w.alone = time.Now()
			}
			look.Reset(outLook)
			continue
		case claim != nil && w.left() <= 0:
			if since, err := w.startUntold(ctx); since != 0 || err != nil {
				return since, err
			}
			continue
		case w.Session.Blocked():
			return 0, lock.Errorf(lock.ErrUnreachable, "%s: the broker serves this connection no more, because of an alarm", w)
		case w.asNext && claim == nil && w.door.Asked() > w.Waiter.Priority:
			return 0, ErrStepBack
		}
		w.sayWaiting(claim)
		var spares <-chan transport.Delivery
		if w.asNext {
			spares = w.Waiter.Spares()
		}
		var requests <-chan uint64
		var enough <-chan time.Time
		if claim != nil {
			requests = claim.watch.requests
			enough = time.After(w.left())
		}
		select {
		case <-changed:
		case <-enough:
		case <-look.C:
			if w.out {
				if err := w.lookIn(ctx); err != nil {
					return 0, err
				}
				look.Reset(outLook)
				break
			}
			next, err := w.look(ctx)
			if err != nil {
				return 0, err
			}
			if w.Waiter.Called() {
				return 0, errElsewhere
			}
			look.Reset(min(next, turn))
		case term := <-requests:
			if term != 0 && (w.door.Awaits(term) || w.door.Empty) {
				if err := w.handBack(ctx, claim); err != nil {
					return 0, err
				}
				look.Reset(turn)
			}
		case <-w.Session.Conn().Blocked():
		case d, open := <-spares:
			if w.Waiter.TakeSpare(d, open) {
				return 0, errElsewhere
			}
		case <-w.Lost():
			return 0, w.Cause()
		case <-ctx.Done():
			return 0, w.gaveUp(ctx)
		}
	}
}

func (w *wait) gaveUp(ctx context.Context) error {
	return fmt.Errorf("gave up waiting for the last holder of %s: %w", w, ctx.Err())
}

// left is how long this holding has to wait for earlier ones if nothing more
// becomes known, from when it had the door and B, and left the door. What comes later can
// say that it takes longer.
func (w *wait) left() time.Duration {
	wait := w.door.Wait(w.lease)
	if w.door.Empty {
		wait = max(wait, w.lease) // what has come since is not all
	}
	return wait - time.Since(w.alone)
}

// comeBack takes the place at the door again. Somebody may be there for a moment, who
// goes because B is ours.
func (w *wait) comeBack(ctx context.Context) (err error) {
	for pauses, tries := transport.Pauses(firstClaimPause, longestClaimPause), 0; ; tries++ {
		if err = w.door.StepIn(ctx); !errors.Is(err, transport.ErrTaken) || tries == comeBackTries {
			break
		}
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return w.gaveUp(ctx)
		}
	}
	w.out = false
	if ctx.Err() != nil {
		return w.gaveUp(ctx)
	}
	return w.judgeDoor(err)
}

// lookIn is a look at a ledger that this contender has left: what has come there may be
// the release, or a sign of life. Somebody who is there for longer than a moment was not
// shown what is in hand here, and has to see it.
func (w *wait) lookIn(ctx context.Context) error {
	n, taken, err := w.door.Waiting(ctx)
	if err != nil || n == 0 && !taken {
		return w.judgeDoor(err)
	}
	return w.comeBack(ctx)
}

// startUntold is for a holder that nobody has heard of for as long as it may live.
func (w *wait) startUntold(ctx context.Context) (boottime.Instant, error) {
	if err := w.comeBack(ctx); err != nil {
		return 0, err
	}
	if w.door.Echoed() || w.recorded && w.door.Over() {
		return 0, nil
	}
	if err := w.judge(w.exists(ctx), "the slot was removed"); err != nil {
		return 0, err
	}
	if !w.recorded {
		// Of whoever it was nothing is known, but that it is dead by now.
		if err := w.record(ctx); err != nil {
			return 0, w.judgeDoor(err)
		}
	} else if err := w.door.Prove(ctx); err != nil {
		return 0, w.judgeDoor(err)
	}
	if err := w.judge(w.proveB(ctx), "its queue is gone"); err != nil {
		return 0, err
	}
	if w.door.Echoed() {
		return 0, nil
	}
	return w.door.Proven(), nil
}

// look proves what this holding has, finds out whether the slot is still there, and
// whether its holder may be gone without a word. It returns when to look again at the
// latest.
func (w *wait) look(ctx context.Context) (time.Duration, error) {
	if w.recorded {
		if err := w.door.Prove(ctx); err != nil {
			return 0, w.judgeDoor(err)
		}
		w.door.Prune()
	}
	if w.a != "" {
		if err := w.judge(w.Session.Side().Find(ctx, w.a), "the slot was removed"); err != nil {
			return 0, err
		}
	}
	again := w.lease
	if w.asNext && !w.Waiter.Tend(ctx) {
		again = lackAgain
	}
	_, claim := w.place()
	if claim != nil || w.door.Over() {
		return again, nil
	}
	if time.Now().Before(w.notBefore) {
		return again, nil
	}
	if w.turns++; w.Session.Apart() && w.turns%looksApart != 1 && !w.absent {
		return again, nil
	}
	found, err := w.Session.Deliver(ctx, w.b, transport.Message{})
	if err != nil || found != transport.Absent {
		w.absent = false
		return again, nil // what is wrong shows elsewhere
	}
	if !w.absent && w.recorded {
		w.absent = true
		return lookAgain, nil
	}
	w.absent = false
	if err := w.claimB(ctx); err != nil && !errors.Is(err, transport.ErrTaken) {
		return 0, w.judge(err, "its queue is gone")
	}
	return w.lease, nil
}

// handBack gives B back to a holder that is alive. The records go first: a newcomer
// without them would know nothing of it.
func (w *wait) handBack(ctx context.Context, c *claim) error {
	w.Log.Debug("the holder lives and wants its slot", "queue", w.b)
	var gone error
	if w.out {
		gone = w.comeBack(ctx)
	}
	if gone != nil {
		_ = w.door.Close(ctx)
	}
	w.door.Heeded()
	w.mu.Lock()
	w.Held.claim = nil
	w.mu.Unlock()
	c.watch.stop()
	w.absent, w.alone, w.notBefore = false, time.Time{}, time.Now().Add(w.lease)
	err := w.Session.Side().Remove(ctx, w.b)
	switch {
	case gone != nil:
		return gone
	case err != nil && !slots.LostRace(err):
		return err
	case !w.asNext || !w.recorded: // not recorded: the ledger said nothing, and has to be read anew
		w.Avoided.Add(w.slot, leaveAlone, transport.ErrTaken)
		return lock.Errorf(lock.ErrFull, "%s: its holder lives and wants it back", w)
	}
	return nil
}

// lostDoor is for a place that was lost before the start.
func (w *wait) lostDoor() error { return w.judgeDoor(w.door.Lost()) }

// judgeDoor says what a failure at the door means for the slot.
func (h *Held) judgeDoor(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lock.ErrLost):
		return h.lose(err.Error())
	case errors.Is(err, lock.ErrUnreachable):
		return h.dropped()
	}
	return err
}

// sayWaiting tells the user once for each holder that is waited for.
func (w *wait) sayWaiting(c *claim) {
	last := w.door.Newest()
	switch {
	case c == nil && w.told != last.Term:
		w.Log.Info("waiting: all slots are held; next in line for this one", "slot", w.slot, "held_by", last.Host,
			"held_by_pid", last.PID)
	case c != nil && w.told != last.Term+1:
		atMost := w.left().Round(time.Millisecond).String()
		if last.Term == 0 {
			w.Log.Info("waiting because the ledger does not say who held the slot last", "slot", w.slot, "queue", w.t,
				"at_most", atMost)
		} else {
			w.Log.Info("waiting for the last holder's release", "slot", w.slot, "term", last.Term, "host", last.Host,
				"at_most", atMost)
		}
		w.told = last.Term + 1
		return
	default:
		return
	}
	w.told = last.Term
}
