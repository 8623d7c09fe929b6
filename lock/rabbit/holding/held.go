package holding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/claim"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/token"
	"berth/lock/rabbit/transport"
	"berth/lock/rabbit/will"
)

// Held is lock.Held: a slot, and what proves that it is ours. Holder.Claim and Holder.Succeed make it.
type Held struct {
	*Holder
	Claim *claim.Claim // whether the slot is lost or in doubt, whatever proves it; and B
	Token *token.Held  // of the slot, which only keeps others from trying; nil: the lock has none
	proof proof

	slot    int
	id      string // of this holding
	a, b, t string // "": the slot has no such queue
	lease   time.Duration

	maxPause time.Duration // between attempts to reclaim

	term   atomic.Uint64                 // 0 until the ledger has the record, and that is proven
	reader atomic.Pointer[ledger.Reader] // nil: the reader's place is not ours
	over   chan struct{}                 // closed once Release has ended

	// Written before the start only.
	handover time.Duration    // what the record says
	proven   boottime.Instant // see Proven
}

// proof is what proves that a slot is ours: Classic, quorum or plain, each with the Held that it is for.
type proof interface {
	enter(ctx context.Context, now, successor bool) error // takes the slot, see Holder
	MayStart() bool                                       // nobody has to end any more before the command may start
	ready(ctx context.Context) error                      // is lock.Held.Ready of a command that was not started
	verify(ctx context.Context) error                     // is lock.Held.Verify

	// repair makes one attempt to end the doubt that verify has told of. Unless the slot is proven then, verify follows.
	repair(ctx context.Context) (proven bool, err error)

	// resign says that the tree is dead, within releasing, and gives back what this holding has. err says that the
	// broker has not confirmed that, and unrecorded that it has not taken the word.
	resign(ctx, releasing context.Context) (unrecorded, err error)

	wait() // waits for what runs beside the holding, once that has ended, or its connection is closed
}

var _ lock.Held = (*Held)(nil)

// newHeld returns a slot of which nothing is had yet.
func (l *Holder) newHeld(slot int) *Held {
	h := &Held{
		Holder: l, slot: slot, id: l.unproven, lease: cmp.Or(l.Env.Lease, 2*l.Session.Conn().Heartbeat()),
		maxPause: maxReclaimPause, over: make(chan struct{}),
	}
	var handle func(transport.Delivery)
	switch {
	case l.Plain:
		h.b = l.Names.Holds(slot)
		h.proof = &plain{Held: h}
	case l.Names.Replicated():
		h.t, h.maxPause = l.Names.Ledger(slot), maxQuorumReclaimPause
		h.proof = newQuorum(h)
	default:
		h.b, h.t = l.Names.Holds(slot), l.Names.Ledger(slot)
		c := newClassic(h)
		h.proof, handle = c, c.handle
	}
	if l.Names.ID.Kind.Administered() || l.Names.Replicated() {
		h.a = l.Names.Exists(slot)
	}
	h.Claim = claim.New(h.String(), h.b, l.Session.Side(), handle, l.Log)
	return h
}

// String names the slot, for messages.
func (h *Held) String() string { return fmt.Sprintf("slot %d of %s", h.slot, h.Names.ID) }

// Slot implements lock.Held.
func (h *Held) Slot() int { return h.slot }

// Term implements lock.Held.
func (h *Held) Term() uint64 { return h.term.Load() }

// Lease implements lock.Held. The broker looks every heartbeat interval whether it has heard from us and closes the
// connection after two looks without a sign: never earlier than two intervals after the last byte it received
// (https://www.rabbitmq.com/docs/heartbeats). Nothing ends with it on quorum queues: the next reader waits for that
// long.
func (h *Held) Lease() time.Duration { return h.lease }

// Lost implements lock.Held.
func (h *Held) Lost() <-chan struct{} { return h.Claim.Lost() }

// Cause implements lock.Held.
func (h *Held) Cause() error { return h.Claim.Cause() }

// Proven implements lock.Held.
func (h *Held) Proven() boottime.Instant { return h.proven }

// Handover implements lock.Held. There is no will while there is no term to release, nor where there is no ledger.
func (h *Held) Handover() lock.Handover {
	who := h.holding()
	if who.Term == 0 || h.t == "" {
		return lock.Handover{}
	}
	w := will.Will{Ledger: h.t, Holding: who, Early: !h.proof.MayStart(), Line: h.Names.Line(), Slot: h.slot}
	return w.Handover(h.Session.Dialer)
}

func (h *Held) holding() ledger.Holding { return ledger.Holding{Term: h.Term(), ID: h.id} }

// written is the record of this holding under a term.
func (h *Held) written(who ledger.Holding) ledger.Record { return who.Held(h.handover, h.Host, h.PID) }

// find looks whether the slot is there.
func (h *Held) find(ctx context.Context) error {
	if h.a == "" {
		return nil
	}
	return h.Claim.Side().Find(ctx, h.a)
}

// onlyType makes sure that a mutex has no queues of the other type. A ledger with a record shows that somebody has made
// sure of that after it was made: who makes the other one looks for it.
func (h *Held) onlyType(ctx context.Context) error {
	if h.Names.ID.Kind != lock.Mutex {
		return nil
	}
	_, err := slots.OfNoOtherType(ctx, h.Session, h.Names, false, h.Names.Replicated())
	return err
}

// handBackPause is for how long nobody else is to try a slot whose holder wants it back: longer than the pauses with
// which that one asks. Each who has the token would have to be asked again. On quorum queues the reader's place is left
// before.
const handBackPause = 500 * time.Millisecond

// Ready implements lock.Held. One that has only waited gives the slot back if the last holder asks for it, or shows
// that it lives; Ready then returns lock.ErrFull.
func (h *Held) Ready(ctx context.Context) error {
	if err := h.Claim.Cause(); err != nil {
		return err
	}
	if h.Claim.Started() {
		return nil // the command is started again
	}
	err := h.proof.ready(ctx)
	switch full := errors.Is(err, lock.ErrFull); {
	case full && h.Token != nil:
		_ = transport.Sleep(ctx, handBackPause)
	case err != nil && !full && ctx.Err() == nil && !h.Claim.Started() && h.Claim.Conn().Broken():
		return h.Claim.Dropped() // whatever was made of that
	}
	return err
}

// started says that the command may be alive from now on.
func (h *Held) started() {
	h.Claim.Start()
	h.Session.KeepSilent(true)
}

// Verify implements lock.Held. It sees to the token as well.
func (h *Held) Verify(ctx context.Context) error { return h.tend(h.proof.verify(ctx)) }

// tend sees to the token of a slot that was proven: the broker hands it on where the connection, or its channel, is
// lost.
func (h *Held) tend(err error) error {
	if err == nil && h.Token != nil {
		h.Token.Tend()
	}
	return err
}

// Attempts to reclaim follow each other quickly at first, because a waiter that has the slot gives it back within
// milliseconds, and then less so: all holders of a broker that has just started reclaim.
const (
	firstReclaimPause     = 5 * time.Millisecond
	maxReclaimPause       = 250 * time.Millisecond
	maxQuorumReclaimPause = 500 * time.Millisecond
)

// Reclaim implements lock.Held. nil is proof that the slot is still ours: the successor starts without our release only
// after it has had the slot for as long as we may live. It goes on trying until ctx ends; the next call takes up where
// it stopped.
func (h *Held) Reclaim(ctx context.Context) error { return h.tend(h.reclaim(ctx)) }

func (h *Held) reclaim(ctx context.Context) error {
	pauses, asked := transport.Pauses(firstReclaimPause, h.maxPause), h.Plain
	for tries := 0; ; tries++ {
		err, proven := h.proof.verify(ctx), true
		if errors.Is(err, lock.ErrInDoubt) {
			if proven, err = h.proof.repair(ctx); err == nil && !proven {
				continue // and verify
			}
		} else if tries == 0 {
			return err
		}
		if err == nil || errors.Is(err, lock.ErrLost) {
			return err
		}
		h.Log.Debug("slot not reclaimed yet", "queue", cmp.Or(h.b, h.t), "error", err)
		if errors.Is(err, transport.ErrTaken) && !asked {
			asked = true
			pauses.Reset() // an answer comes soon
		}
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return lock.Errorf(lock.ErrInDoubt, "cannot reclaim %s yet: %w", h, err)
		}
	}
}

// moveTo goes on with B on another connection, which has claimed it.
func (h *Held) moveTo(ctx context.Context, side *transport.Channel) error {
	h.Claim.Unwatch()
	h.Claim.Wait() // what was asked on the broken connection
	err := h.Claim.MoveTo(ctx, side)
	if err == nil {
		h.reclaimed()
	}
	return err
}

func (h *Held) reclaimed() {
	h.Session.KeepSilent(true)
	h.Log.Info("slot reclaimed", "slot", h.slot, "broker", h.Claim.Conn().Label())
}

// Over reports whether Release has ended.
func (h *Held) Over() bool { return transport.IsClosed(h.over) }

// Release implements lock.Held. The token leaves with the release: the berth that gets it needs longer to take the
// reader's place.
func (h *Held) Release(ctx context.Context) error {
	err := h.release(ctx)
	if h.Token != nil {
		err = cmp.Or(err, h.Token.Return(ctx))
	}
	return err
}

func (h *Held) release(ctx context.Context) error {
	if h.Claim.End() {
		return nil // released before
	}
	defer close(h.over)
	releasing, cancel := ledger.Releasing(ctx)
	defer cancel()
	if h.Claim.Started() {
		defer context.AfterFunc(ctx, func() { h.Claim.Conn().Abandon() })()
	}
	unrecorded, err := h.proof.resign(ctx, releasing)
	if err != nil {
		h.Claim.Conn().Abandon()
		<-h.Claim.Conn().Done()
	}
	h.proof.wait()
	if err == nil || h.Claim.Conn().Orderly() {
		return unrecorded // what was ours has gone with the connection, by the broker's own word
	}
	return fmt.Errorf("cannot confirm that %s was given back; the connection was closed, which frees it: %w", h, err)
}

// putBack puts the token back, without waiting; nil: there is none.
func (h *Held) putBack() func() {
	if h.Token == nil {
		return nil
	}
	return h.Token.PutBack
}

// Wait waits for what runs beside the holding, once its connection is closed.
func (h *Held) Wait() {
	if h.Token != nil {
		h.Token.Wait()
	}
	h.proof.wait()
}

// sayAwaited tells the user whom the slot is waited for.
func (h *Held) sayAwaited(last ledger.Record, left time.Duration) {
	atMost := left.Round(time.Millisecond).String()
	if last.Term == 0 {
		h.Log.Info("waiting because the ledger does not name the slot's last holder", "slot", h.slot, "queue", h.t,
			"at_most", atMost)
		return
	}
	h.Log.Info("waiting for the last holder's release", "slot", h.slot, "term", last.Term, "host", last.Host,
		"at_most", atMost)
}
