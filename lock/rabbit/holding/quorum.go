package holding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// quorum is what proves a slot whose ledger is a quorum queue: the reader's place of that. Its Claim has no queue, and
// tells whether the place is lost or in doubt.
type quorum struct {
	*Held
	next *ledger.Reader // that is to take the place of reader; used in repair and resign

	searching transport.Mutex // guards search
	search    *search         // for another node; nil: none

	back func() (unrecorded, err error) // what came of leaving the reader's place before Release; nil: that leaves it
	work sync.WaitGroup                 // those that watch readers

	tried    ledger.Holding // the last one that was written, whether it has come or not
	recorded time.Time      // when the record was written last
}

func newQuorum(of *Held) *quorum { return &quorum{Held: of, searching: transport.NewMutex()} }

// visitor is this holding as a reader. A holder accepts what a waiter does not.
func (h *quorum) visitor() ledger.Visitor {
	return ledger.Visitor{
		ID: h.id, Above: h.highest,
		Knock: func(ctx context.Context) error { return h.Writer.Knock(ctx, h.t, h.id) },
		Handle: func(d transport.Delivery) {
			switch {
			case d.Redelivered:
			case h.Claim.Started():
				h.Inbox.Handle(d)
			default:
				h.Inbox.HandleQuestion(d)
			}
		},
	}
}

// MayStart implements proof. Before that a release speaks of this holding alone, because the ledger may lose the
// records of those that it has waited for.
func (h *quorum) MayStart() bool {
	return h.Claim.Started() || h.Term() != 0 && h.free(h.reader.Load().View())
}

// watch has the end of the place noticed as soon as the broker says so.
func (h *quorum) watch(reader *ledger.Reader) {
	ended := reader.View().Ended
	h.work.Go(func() {
		select {
		case <-ended:
			_ = h.judge(reader.Lost())
		case <-h.Claim.Life().Done():
		}
	})
}

// judge says what a failure of the reader means for the slot. The end of the consumer is no proof of a loss: the broker
// ends it after a split, and of a delivery that it takes for too old.
func (h *quorum) judge(err error) error {
	switch {
	case errors.Is(err, lock.ErrUnreachable):
		return h.Claim.Dropped()
	case !errors.Is(err, lock.ErrLost):
		return err
	case h.Claim.Started():
		return h.Claim.Doubt(err.Error())
	}
	return h.Claim.Lose(err.Error())
}

// verify proves the place: the record is put back, and comes again.
func (h *quorum) verify(ctx context.Context) error {
	return h.Claim.Ask(ctx, func() error {
		reader := h.reader.Load()
		heard := reader.View().Read
		h.lookElsewhere(reader)
		err := h.ask()
		if err == nil || reader.View().Read != heard {
			h.answered()
		}
		if err == nil && time.Since(h.recorded) > h.Env.RewriteInterval && h.Claim.Life().Err() == nil {
			h.rewrite()
		}
		return err
	})
}

func (h *quorum) ask() error {
	background := context.Background() // the channels are patient
	reader := h.reader.Load()
	known := reader.View()
	if err := h.judgeRecords(known, false); err != nil {
		return err
	}
	h.Writer.WarnOfDoubt(h.t, known.Doubt())
	err := reader.Prove(background)
	if errors.Is(err, ledger.ErrCopies) {
		return lock.Errorf(lock.ErrInDoubt, "%s: %s", h, err.Error())
	} else if err != nil {
		return h.judge(err)
	}
	h.noteDelay(reader)
	if err := h.judgeRecords(reader.View(), true); err != nil {
		return err
	}
	if err := h.find(background); errors.Is(err, transport.ErrNoQueue) {
		return h.Claim.JudgeExistence(err)
	} else if err != nil {
		h.Log.Debug("cannot see whether the slot was removed", "queue", h.a, "error", err)
	}
	return nil
}

// judgeRecords says what the ledger's records mean for a holding, by a proof of its place or before it.
func (h *quorum) judgeRecords(known ledger.View, proven bool) error {
	switch {
	case known.Disowned():
		return h.Claim.Lose("its guard has released it")
	case proven && known.Contested():
		return lock.Errorf(lock.ErrInDoubt, "%s: another berth, which had its place, waits for it", h)
	}
	return nil
}

// resign ends what goes on, and gives up the slot, unless that is done.
func (h *quorum) resign(ctx, releasing context.Context) (unrecorded, err error) {
	h.stayHere()
	h.Session.KeepSilent(false)
	if h.next != nil {
		_ = h.next.Close(releasing)
	}
	if h.back != nil {
		return h.back()
	}
	return h.vacate(ctx, releasing, h.putBack())
}

func (h *quorum) wait() {
	h.Claim.End()
	h.work.Wait()
	h.Claim.Wait()
	h.stayHere()
}

// vacate says that the tree is dead, within releasing, and leaves the reader's place in the same write. One that has
// started nothing leaves everything as it was. leaving is what leaves in that write, too.
func (h *quorum) vacate(ctx, releasing context.Context, leaving func()) (unrecorded, err error) {
	reader := h.reader.Load()
	switch {
	case reader == nil:
		return nil, nil
	case !h.Claim.Started() && reader.Empty:
		// With a release, the ledger would look as if nobody else could be alive; with the record, a holder of before
		// would stay in doubt.
		return nil, reader.Withdraw(ctx)
	case h.Term() == 0:
		if h.tried.Term != 0 { // it, too, would keep a holder in doubt
			unrecorded = h.recordRelease(ctx, h.tried)
		}
		return unrecorded, reader.Close(ctx)
	case h.Claim.Conn().Broken() || h.Session.Conn() != h.Claim.Conn() || h.Session.Apart() || h.unanswered(releasing, reader):
		if h.Session.Blocked() {
			h.Claim.Conn().Abandon() // nothing is answered on it any more
		}
		unrecorded = h.recordRelease(ctx, h.holding())
		return unrecorded, reader.Close(ctx)
	}
	batch := transport.Batch{Queue: h.t, Message: h.holding().Released(!h.MayStart()), First: leaving}
	publish := h.Session.Main().Publish
	if h.Claim.Started() { // otherwise the records of those who may live have to go back
		publish = reader.Leave
	}
	found, failure := publish(releasing, batch)
	if failure != nil {
		h.Claim.Conn().Abandon() // which frees what is ours; it may have waited behind a proof that is not answered
	}
	if failure != nil || found != transport.Present {
		unrecorded = h.recordRelease(ctx, h.holding())
	}
	return unrecorded, h.Claim.Conn().UnlessBlocked(func() error { return reader.Close(ctx) })
}

// unanswered reports whether the ledger does not answer one whose command has run, and cuts the connection then. A
// leader that hangs does not see a consumer off: the broker keeps its channel for 70 s more, and nobody gets past it
// though there is another leader. A consumer whose connection is cut before it leaves is gone with that.
func (h *quorum) unanswered(ctx context.Context, reader *ledger.Reader) bool {
	if !h.Claim.Started() || reader.AwaitCopies(ctx, h.silence()) == nil {
		return false
	}
	h.Claim.Conn().Abandon()
	return true
}

func (h *quorum) recordRelease(ctx context.Context, who ledger.Holding) error {
	if err := h.Writer.Release(ctx, h.t, who, !h.MayStart()); err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	return nil
}
