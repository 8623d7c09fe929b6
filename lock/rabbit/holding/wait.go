package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

const (
	// lookAgain is when a successor that has seen no B looks once more before it claims it: a holder whose
	// connection was reset has it back within milliseconds.
	lookAgain = 500 * time.Millisecond
	// lackAgain is when a successor that has no baton looks once more whether it has come, and then makes one:
	// longer than one takes that is there already.
	lackAgain = 50 * time.Millisecond
	// outLook is how often one that waits away from the reader's place looks whether something has come to the ledger.
	outLook = 100 * time.Millisecond
	// comeBackTries bounds the attempts to take the reader's place again, which take two seconds then.
	comeBackTries = 10
	// leaveAlone is for how long a successor does not claim a slot again that it has left to its holder.
	leaveAlone = time.Second
	// looksApart is after how many rounds a successor looks at B where a look costs a connection.
	looksApart = 4
)

// MayStart reports whether nobody has to end before the command may start.
func (h *Classic) MayStart() bool { return h.mayStart || h.free(h.reader.Load().View()) }

// free is MayStart, where the reader knows this much.
func (h *Classic) free(known ledger.View) bool {
	return situation{mayStart: h.mayStart, term: h.Term(), missing: h.reader.Load().Missing}.free(known)
}

// ErrStepBack says that a waiter of a higher priority is to be the successor.
var ErrStepBack = errors.New("a waiter of a higher priority is the successor")

// ErrElsewhere says that another slot may be free: that of line.Waiter.Hint.
var ErrElsewhere = errors.New("another slot may be free")

// Stand waits in the reader's place until the command may start. Errors: lock.ErrLost, lock.ErrUnreachable,
// lock.ErrUnknown, that of ctx, ErrStepBack, or ErrElsewhere. The caller releases it then.
func (h *Classic) Stand(ctx context.Context) error { return h.stand(ctx, true) }

// ready waits as a successor does, but gives the slot back if the last holder asks for it.
func (h *Classic) ready(ctx context.Context) error {
	err := h.stand(ctx, false)
	if err == nil {
		h.started()
		go h.takeB(h.reader.Load())
	}
	return err
}

func (h *Classic) stand(ctx context.Context, asSuccessor bool) error {
	w := wait{Classic: h, reader: h.reader.Load(), asSuccessor: asSuccessor}
	since, err := w.await(ctx)
	if err == nil {
		h.mayStart, h.proven = true, since
		return nil
	}
	if cause := h.Claim.Cause(); ctx.Err() != nil {
		// It may have cut the connection.
		err = fmt.Errorf("gave up waiting for the last holder of %s: %w", h, ctx.Err())
	} else if cause != nil {
		err = cause
	}
	if !errors.Is(err, ErrStepBack) && !errors.Is(err, ErrElsewhere) {
		h.skipUnusable(ctx, err)
	}
	return err
}

// wait is the time between taking the reader's place and the start.
type wait struct {
	*Classic
	reader      *ledger.Reader
	asSuccessor bool   // it goes on to wait when the holder has asked for the slot
	asked       bool   // the holder has asked for the slot
	absent      bool   // B was not there when it was last looked at
	rounds      int    // since the last look at B
	lacks       int    // how often there was no baton
	there       bool   // the slot was seen since nobody has to be waited for
	told        uint64 // the term whose end the user was told is waited for; 0: none

	notBefore time.Time // that B is claimed: its holder lives

	seekAt time.Time // not before that it looks at other slots; zero: it has not thought of that yet
	beside int       // another slot that seemed to be free; 0: none
}

// await returns when the proof began with which the command may start.
//
// While it waits it proves now and then that it is still the successor, so that it can start at once: a release that it
// hears of may have lain in the socket for as long as this process was stopped.
func (w *wait) await(ctx context.Context) (boottime.Instant, error) {
	interval := w.lease / 4
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		known := w.reader.View()
		w.Writer.WarnOfDoubt(w.t, known.Doubt())
		var err error
		switch w.situation(ctx).next(known) {
		case giveUp:
			err = ctx.Err()
		case sayWhy:
			err = w.Claim.Cause()
		case losePlace:
			err = w.judgeReader(w.reader.Lost())
		case loseToGuard:
			err = w.Claim.Lose("its guard has released it")
		case handBack:
			err = w.handBack(ctx)
			look.Reset(interval)
		case recordAgain:
			err = w.judgeReader(w.recordTerm(ctx))
		case proveAgain:
			err = w.prove(ctx)
		case lookAtSlot:
			err = w.Claim.JudgeExistence(w.exists(ctx)) // its last holder may have seen it removed
			w.there = err == nil
		case start:
			return known.Proven, nil
		case breakOff:
			err = w.Session.Conn().BrokenError(w.String())
		case waitOutside:
			var since boottime.Instant
			if since, err = w.outside(ctx); since != 0 {
				return since, nil
			}
		case stepBack:
			w.reader.Prune() // the next reader is not asked
			err = ErrStepBack
		case listen:
			w.sayWaiting(known)
			var again time.Duration
			select {
			case <-known.Changed:
			case <-look.C:
				again, err = w.look(ctx)
				if err == nil && w.Waiter.Hint() > 0 {
					err = ErrElsewhere
				}
				look.Reset(min(again, interval))
			case d, open := <-w.spares():
				if w.Waiter.TakeSpare(d, open) {
					err = ErrElsewhere
				}
			case <-w.Session.Conn().Blocked():
			case <-w.Claim.Lost():
			case <-ctx.Done():
			}
		}
		if err != nil {
			return 0, err
		}
	}
}

// situation is where it stands now.
func (w *wait) situation(ctx context.Context) situation {
	return situation{
		clock: w.Session.Dialer.Clock, gaveUp: ctx.Err() != nil, lost: w.Claim.Cause() != nil, out: w.out,
		ours: w.Claim.Ours(), asked: w.asked,
		term: w.Term(), mayStart: w.mayStart, missing: w.reader.Missing, lease: w.lease, asSuccessor: w.asSuccessor, there: w.there,
		blocked: w.Session.Blocked(), priority: w.Waiter.Priority,
	}
}

// spares receives what nobody in line wants, for a successor.
func (w *wait) spares() <-chan transport.Delivery {
	if w.asSuccessor {
		return w.Waiter.Spares()
	}
	return nil
}

// prove proves what this holding has: the reader's place, and B where it was claimed.
func (w *wait) prove(ctx context.Context) error {
	if err := w.reader.Prove(ctx); err != nil {
		return w.judgeReader(err)
	}
	w.pruned()
	if w.reader.View().Dropped {
		w.Writer.WarnOfPolicy(w.t, "the record of a holder was not delivered again")
	}
	if w.Claim.Ours() {
		return w.Claim.Prove(ctx)
	}
	return nil
}

// look proves that this holding is the successor, finds out whether the slot is still there, and whether its holder may
// be gone without a word. It returns when to look again at the latest.
func (w *wait) look(ctx context.Context) (time.Duration, error) {
	if w.Term() != 0 {
		if err := w.prove(ctx); err != nil {
			return 0, err
		}
		w.reader.Prune()
	}
	if err := w.Claim.JudgeExistence(w.exists(ctx)); err != nil {
		return 0, err
	}
	again := w.lease
	switch {
	case !w.asSuccessor:
	case w.Waiter.Tend(ctx):
		w.lacks = 0
	default:
		again = lackAgain << min(w.lacks, 8)
		w.lacks++
	}
	if w.asSuccessor {
		again = min(again, w.seek(ctx))
	}
	if w.reader.View().AllReleased() || time.Now().Before(w.notBefore) {
		return again, nil
	}
	if w.rounds++; w.Session.Apart() && w.rounds%looksApart != 1 && !w.absent {
		return again, nil
	}
	found, err := w.Session.ProbeOne(ctx, w.b)
	if err != nil || found != transport.Absent {
		w.absent = false
		return again, nil // what is wrong shows elsewhere
	}
	if w.absent = !w.absent; w.absent && w.Term() != 0 {
		return lookAgain, nil
	}
	w.absent = false
	if err := w.Claim.Take(ctx); err != nil && !errors.Is(err, transport.ErrTaken) {
		return 0, w.Claim.Judge(err, "its queue is gone")
	}
	return w.lease, nil
}

// outside waits away from the reader's place, with B, for a holder that says nothing. It returns in the reader's place
// again, with a proof, once that one has been silent for as long as it may live, and with 0 when there is something to
// read, or somebody has asked for the slot; and with 0 when the wait is over.
func (w *wait) outside(ctx context.Context) (boottime.Instant, error) {
	if !w.out {
		if err := w.reader.StepOut(ctx); err != nil {
			return 0, w.judgeReader(err)
		}
		if w.out = true; w.alone.IsZero() {
			w.alone = time.Now()
		}
	}
	known := w.reader.View()
	w.sayWaiting(known)
	enough, look := time.NewTimer(w.left(known)), time.NewTimer(outLook)
	defer enough.Stop()
	defer look.Stop()
	for {
		select {
		case <-enough.C:
			return w.startUntold(ctx)
		case <-look.C:
			if ctx.Err() != nil {
				return 0, nil // a question now would cut the connection
			}
			// What has come may be the release, or a sign of life. Somebody who is there for longer than a moment was not
			// shown what is in hand here, and has to see it.
			n, taken, err := w.reader.Waiting(ctx)
			if err != nil {
				return 0, w.judgeReader(err)
			}
			if n > 0 || taken {
				return 0, w.comeBack(ctx, taken)
			}
			if w.asSuccessor {
				w.Waiter.Tend(ctx)
			}
			if w.Waiter.Hint() > 0 {
				return 0, ErrElsewhere
			}
			look.Reset(outLook)
		case term := <-w.Claim.Requests():
			if w.asked = term != 0 && (known.Awaits(term) || w.reader.Empty || known.Unknown()); w.asked {
				return 0, w.comeBack(ctx, false)
			}
		case d, open := <-w.spares():
			if w.Waiter.TakeSpare(d, open) {
				return 0, ErrElsewhere
			}
		case <-w.Session.Conn().Blocked():
			return 0, nil
		case <-w.Claim.Lost():
			return 0, nil
		case <-ctx.Done():
			return 0, nil
		}
	}
}

// left is how long this holding has to wait for earlier ones if nothing more becomes known, from when it had the
// reader's place and B, and left that place. What comes later can say that it takes longer.
func (w *wait) left(known ledger.View) time.Duration {
	wait := known.Wait(w.lease)
	if w.reader.Empty || known.Unknown() {
		wait = max(wait, w.lease, w.unreleased[w.slot]) // what has come since is not all
	}
	if known.Unnamed() {
		wait = max(wait, w.Env.MaxLease)
	}
	return wait - time.Since(w.alone)
}

// comeBack takes the reader's place again. Somebody may be there for a moment, who goes because B is ours. Where it
// fails, the records go back before B does: a newcomer without them would know nothing of who lives.
func (w *wait) comeBack(ctx context.Context, visited bool) (err error) {
	pauses := transport.Pauses(firstClaimPause, maxClaimPause)
	before := w.reader.View().Read
	for range comeBackTries {
		err = w.reader.StepIn(ctx)
		taken := errors.Is(err, transport.ErrTaken)
		visited = visited || taken
		if !taken || transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			break
		}
	}
	if visited || w.reader.View().Read > before {
		w.alone = time.Time{} // that may have hidden from a holder that we have its record
	}
	w.out = err != nil && ctx.Err() != nil
	if err == nil || w.out {
		return err
	}
	_ = w.reader.Close(ctx)
	return w.judgeReader(err)
}

// startUntold is for a holder that nobody has heard of for as long as it may live. It returns 0 if something is heard
// now.
func (w *wait) startUntold(ctx context.Context) (boottime.Instant, error) {
	if err := w.comeBack(ctx, false); err != nil {
		return 0, err
	}
	if known := w.reader.View(); known.HolderAlive || w.free(known) || w.alone.IsZero() {
		return 0, nil
	}
	if err := w.Claim.JudgeExistence(w.exists(ctx)); err != nil {
		return 0, err
	}
	if w.reader.View().Truncated() {
		w.Writer.WarnOfPolicy(w.t, "it lacks a record of which others tell")
	}
	if w.Term() == 0 || !w.reader.View().Current() {
		// Nothing is known of the last holder, but that it is dead by now.
		if err := w.recordTerm(ctx); err != nil {
			return 0, w.judgeReader(err)
		}
	} else if err := w.prove(ctx); err != nil {
		return 0, err
	}
	known := w.reader.View()
	if known.HolderAlive {
		return 0, nil
	}
	return known.Proven, nil
}

// handBack gives B back to a holder that is alive.
func (w *wait) handBack(ctx context.Context) error {
	w.Log.Debug("the holder lives and wants its slot", "queue", w.b)
	w.reader.ClearHolderAlive()
	w.asked, w.absent, w.alone, w.notBefore = false, false, time.Time{}, time.Now().Add(w.lease)
	leaving := !w.asSuccessor || w.Term() == 0 // not recorded: the ledger said nothing, and has to be read again
	if leaving {                               // before B, or the holder takes us for somebody who has read its record
		if err := w.reader.Close(ctx); err != nil {
			return err
		}
	}
	if err := w.Claim.GiveBack(ctx); err != nil {
		return err
	}
	if leaving {
		w.Skipped.Add(w.slot, leaveAlone, transport.ErrTaken)
		return lock.Errorf(lock.ErrFull, "%s: its holder lives and wants it back", w)
	}
	return nil
}

// sayWaiting tells the user once for each holder that is waited for.
func (w *wait) sayWaiting(known ledger.View) {
	last, ours := known.Awaited(), w.Claim.Ours()
	about := last.Term
	if ours {
		about++
	}
	if w.told == about {
		return
	}
	if w.told = about; !ours {
		w.Log.Info("waiting: held by others; next in line", "slot", w.slot, "held_by", last.Host,
			"held_by_pid", last.PID)
		return
	}
	w.sayAwaited(last, w.left(known))
}
