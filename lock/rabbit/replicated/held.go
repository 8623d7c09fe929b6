package replicated

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/claim"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
	"berth/lock/rabbit/will"
)

// Held is lock.Held: the reader's place of a slot's ledger. Holder.Claim makes it.
type Held struct {
	*Holder
	Claim *claim.Claim // whether the place is lost, or in doubt: it has no queue of its own
	slot  int
	id    string // of this holding
	a, t  string
	lease time.Duration

	term   atomic.Uint64                 // 0 until the ledger has the record, and that is proven
	reader atomic.Pointer[ledger.Reader] // nil before it is entered
	next   *ledger.Reader                // that is to take its place; used in Reclaim and Release

	searching transport.Mutex // guards search
	search    *search         // for another node; nil: none

	back func() (unrecorded, err error) // what came of leaving the reader's place before Release; nil: that leaves it

	over chan struct{}  // closed once Release has ended
	work sync.WaitGroup // those that watch readers

	tried    ledger.Holding   // the last one that was written, whether it has come or not
	handover time.Duration    // what the record says; written before the start only
	recorded time.Time        // when the record was written last
	proven   boottime.Instant // see Proven
}

var _ lock.Held = (*Held)(nil)

func (l *Holder) newHeld(slot int, id string) *Held {
	h := &Held{
		searching: transport.NewMutex(),
		Holder:    l, slot: slot, id: id, a: l.Names.Exists(slot), t: l.Names.Ledger(slot),
		lease: 2 * l.Session.Conn().Heartbeat(), over: make(chan struct{}),
	}
	h.Claim = claim.NewUnwatched(h.String(), "", l.Session.Side(), l.Log)
	return h
}

// visitor is this holding as a reader. A holder accepts what a waiter does not.
func (h *Held) visitor() ledger.Visitor {
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

// String names the slot, for messages.
func (h *Held) String() string { return fmt.Sprintf("slot %d of %s", h.slot, h.Names.ID) }

// Lost implements lock.Held.
func (h *Held) Lost() <-chan struct{} { return h.Claim.Lost() }

// Cause implements lock.Held.
func (h *Held) Cause() error { return h.Claim.Cause() }

// Slot implements lock.Held.
func (h *Held) Slot() int { return h.slot }

// Term implements lock.Held.
func (h *Held) Term() uint64 { return h.term.Load() }

// Lease implements lock.Held. Nothing in the broker ends with it: the next reader waits for that long since then.
func (h *Held) Lease() time.Duration { return h.lease }

// Proven implements lock.Held.
func (h *Held) Proven() boottime.Instant { return h.proven }

// Over reports whether Release has ended.
func (h *Held) Over() bool { return transport.IsClosed(h.over) }

// Handover implements lock.Held. There is no will while there is no term to release.
func (h *Held) Handover() lock.Handover {
	who := h.holding()
	if who.Term == 0 {
		return lock.Handover{}
	}
	handover := will.Will{Ledger: h.t, Holding: who, Early: h.early(), Slot: h.slot}.Handover(h.Session.Dialer)
	handover.Slot = h.slot
	return handover
}

// early reports whether it has not seen everybody before it end: its release speaks of itself alone then, because the
// ledger may lose the records of those that it has waited for.
func (h *Held) early() bool {
	return !h.Claim.Started() && (h.Term() == 0 || !h.free(h.reader.Load().View()))
}

func (h *Held) holding() ledger.Holding { return ledger.Holding{Term: h.Term(), ID: h.id} }

// watch has the end of the place noticed as soon as the broker says so.
func (h *Held) watch(reader *ledger.Reader) {
	ended := reader.View().Ended
	h.work.Go(func() {
		select {
		case <-ended:
			_ = h.judge(reader.Lost())
		case <-h.Claim.Ended():
		}
	})
}

// judge says what a failure of the reader means for the slot. The end of the consumer is no proof of a loss: the broker
// ends it after a split, and of a delivery that it takes for too old.
func (h *Held) judge(err error) error {
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

// Verify implements lock.Held. It proves the place: the record is put back, and comes again.
func (h *Held) Verify(ctx context.Context) error {
	return h.Claim.Ask(ctx, func() error {
		reader := h.reader.Load()
		heard := reader.View().Read
		h.lookElsewhere(reader)
		err := h.ask()
		if err == nil || reader.View().Read != heard {
			h.answered()
		}
		if err == nil && time.Since(h.recorded) > h.Env.RewriteInterval && !transport.IsClosed(h.Claim.Ended()) {
			h.rewrite()
		}
		return err
	})
}

func (h *Held) ask() error {
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
	if err := h.exists(background); errors.Is(err, transport.ErrNoQueue) {
		return h.Claim.JudgeExistence(err)
	} else if err != nil {
		h.Log.Debug("cannot see whether the slot was removed", "queue", h.a, "error", err)
	}
	return nil
}

// judgeRecords says what the ledger's records mean for a holding, by a proof of its place or before it.
func (h *Held) judgeRecords(known ledger.View, proven bool) error {
	switch {
	case known.Disowned():
		return h.Claim.Lose("its guard has released it")
	case proven && known.Contested():
		return lock.Errorf(lock.ErrInDoubt, "%s: another berth, which had its place, waits for it", h)
	}
	return nil
}

// Release implements lock.Held.
func (h *Held) Release(ctx context.Context) error {
	if h.Claim.End() {
		return nil // released before
	}
	defer close(h.over)
	releasing, cancel := ledger.Releasing(ctx)
	defer cancel()
	h.stayHere()
	if h.Claim.Started() {
		defer context.AfterFunc(ctx, h.Claim.Conn().Abandon)()
	}
	h.Session.KeepSilent(false)
	if h.next != nil {
		_ = h.next.Close(releasing)
	}
	giveBack := func() (unrecorded, err error) { return h.giveBack(ctx, releasing, h.Leaving) }
	if h.back != nil {
		giveBack = h.back
	}
	unrecorded, err := giveBack()
	if err != nil {
		h.Claim.Conn().Abandon()
		<-h.Claim.Conn().Done()
	}
	h.Wait()
	if err == nil || h.Claim.Conn().Orderly() {
		return unrecorded
	}
	return fmt.Errorf("cannot confirm that %s was given back; the connection was closed, which frees it: %w", h, err)
}

// Wait waits for what runs beside the holding. The connection is closed, or the holding has ended.
func (h *Held) Wait() {
	h.Claim.End()
	h.work.Wait()
	h.Claim.Wait()
	h.stayHere()
}

// giveBack says that the tree is dead, within releasing, and leaves the reader's place in the same write. One that has
// started nothing leaves everything as it was. leaving is what leaves in that write, too.
func (h *Held) giveBack(ctx, releasing context.Context, leaving func()) (unrecorded, err error) {
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
	batch := transport.Batch{Queue: h.t, Message: h.holding().Released(h.early()), First: leaving}
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
func (h *Held) unanswered(ctx context.Context, reader *ledger.Reader) bool {
	if !h.Claim.Started() || reader.AwaitCopies(ctx, h.silence()) == nil {
		return false
	}
	h.Claim.Conn().Abandon()
	return true
}

func (h *Held) recordRelease(ctx context.Context, who ledger.Holding) error {
	if err := h.Writer.Release(ctx, h.t, who, h.early()); err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	return nil
}
