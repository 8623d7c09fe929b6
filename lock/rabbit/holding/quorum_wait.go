package holding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// ready waits, and steps back if a holder of before shows that it lives.
func (h *quorum) ready(ctx context.Context) error {
	if err := h.await(ctx); err != nil {
		if ctx.Err() != nil { // it may have cut the connection
			return fmt.Errorf("gave up waiting for the last holder of %s: %w", h, ctx.Err())
		} else if cause := h.Claim.Cause(); cause != nil {
			return cause
		}
		return err
	}
	reader := h.reader.Load()
	h.proven = reader.View().Proven
	h.started()
	reader.Keep()
	h.watch(reader)
	return nil
}

// await returns once the command may start, by the last proof of the reader's place.
//
// The delay counts from when the own record had come: the place was ours then. Where it is somebody else's for a while,
// the records in hand come again, which looks like a holder that writes its record again: both end the wait.
func (h *quorum) await(ctx context.Context) error {
	reader, since, told := h.reader.Load(), time.Now(), false
	look := time.NewTicker(h.lease / 4)
	defer look.Stop()
	for {
		known := reader.View()
		h.Writer.WarnOfDoubt(h.t, known.Doubt())
		left := h.delay(known) - time.Since(since)
		now := quorumSituation{
			clock: h.Session.Dialer.Clock, gaveUp: ctx.Err() != nil, blocked: h.Session.Blocked(), empty: reader.Empty, left: left, lease: h.lease,
		}
		var err error
		switch now.next(known) {
		case giveUp:
			err = ctx.Err()
		case losePlace:
			err = h.judge(reader.Lost())
		case loseToGuard:
			err = h.Claim.Lose("its guard has released it")
		case stepBack:
			h.stepBack(ctx)
			err = lock.Errorf(lock.ErrFull, "%s: its holder lives, or another berth had its place", h)
		case breakOff:
			err = h.Session.Conn().BrokenError(h.String())
		case recordAgain:
			err, since = h.record(ctx), time.Now()
		case start:
			return nil
		case proveAgain:
			err = h.look(ctx, reader)
		case proveLast:
			if err = h.look(ctx, reader); err == nil && undisturbed(reader.View()) {
				return nil
			}
		case listen:
			if !told {
				told = true
				h.sayAwaited(known.Awaited(), left)
			}
			err = h.pause(ctx, reader, known, left, look.C)
		}
		if err != nil {
			return err
		}
	}
}

// stepBack leaves the reader's place to a holder that lives, which has no record before that. Whatever else keeps
// others from the slot, as its token, stays until Release.
func (h *quorum) stepBack(ctx context.Context) {
	h.Skipped.Add(h.slot, leaveAlone, transport.ErrTaken)
	ctx, cancel := ledger.Finishing(ctx)
	defer cancel()
	releasing, cancel := ledger.Releasing(ctx)
	defer cancel()
	unrecorded, err := h.vacate(ctx, releasing, nil)
	h.back = func() (error, error) { return unrecorded, err }
}

// pause returns when there may be something to do. Now and then it proves the place.
func (h *quorum) pause(ctx context.Context, reader *ledger.Reader, known ledger.View, left time.Duration,
	look <-chan time.Time) error {
	enough := time.NewTimer(left)
	defer enough.Stop()
	select {
	case <-known.Changed:
	case <-enough.C:
	case <-look:
		return h.look(ctx, reader)
	case <-h.Session.Conn().Blocked():
	case <-ctx.Done():
	}
	return nil
}

// look proves the place, and that the slot is there.
func (h *quorum) look(ctx context.Context, reader *ledger.Reader) error {
	if err := reader.Prove(ctx); errors.Is(err, ledger.ErrTimedOut) {
		if reader.Deprived(ctx, h.visitor().Knock) {
			h.miss()
		}
		return err
	} else if err != nil {
		return h.judge(err)
	}
	reader.Prune()
	return h.Claim.JudgeExistence(h.find(ctx))
}
