package administration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Looking whether a slot is vacant: soon at first, then as seldom as a person who waits does not mind.
const (
	firstVacantPause = 50 * time.Millisecond
	lastVacantPause  = time.Second
)

// leaving is a slot that is waited for.
type leaving struct {
	names   names.Names // of a type that the lock may have
	slot    int
	absent  time.Time          // since when B is seen not to be there; zero: it was there
	records int                // how many the ledger had when it was read; -1: not read since absent
	known   ledger.History     // what they said
	said    bool               // the user was told what is waited for
	told    transport.Presence // what the user was told of B last; transport.Absent: nothing
	removed bool               // A was seen not to be there
	vacant  bool               // it is known to be
}

// AwaitVacant implements lock.Administrator. A wait of days outlives the node that it began with. Each pass looks at
// all slots, so that their handover delays pass at the same time.
func (a *administrator) AwaitVacant(ctx context.Context, from, to int) error {
	var waited []*leaving // not known to be vacant yet, the lowest first; nil: not known either which there may be
	lowest := from
	var act *action // nil: not connected
	defer func() { act.close(ctx) }()
	reason := "" // why it cannot see, as the user was told
	for pause := firstVacantPause; waited == nil || len(waited) > 0; pause = min(2*pause, lastVacantPause) {
		var err error
		if act == nil {
			act, err = a.begin(ctx)
		}
		if err == nil && waited == nil {
			waited, err = act.leavers(ctx, from, to)
		}
		if err == nil {
			err = act.lookForSlots(ctx, waited, pause > firstVacantPause)
			waited = slices.DeleteFunc(waited, func(l *leaving) bool { return l.vacant })
		}
		if len(waited) > 0 {
			lowest = waited[0].slot
		}
		if errors.Is(err, lock.ErrUnreachable) {
			act.close(ctx)
			act = nil
			// While nobody looks, any B may come back and go once more: it has to be seen to be absent again.
			for _, l := range waited {
				l.absent = time.Time{}
			}
			if ctx.Err() == nil && err.Error() != reason {
				reason = err.Error()
				a.dialer.Log.Warn("cannot see whether the slot is vacant; trying again",
					"slot", lowest, "error", err)
			}
			err = nil
		}
		if err == nil && (waited == nil || len(waited) > 0) {
			err = transport.Sleep(ctx, pause)
		}
		switch {
		case errors.Is(err, lock.ErrBusy):
			return err
		case err != nil:
			return fmt.Errorf("slot %d of %s is not known to be vacant: %w", lowest, a.names.ID, err)
		}
	}
	return nil
}

// leavers returns the slots from..to, of each type of queues that the lock may have.
func (a *action) leavers(ctx context.Context, from, to int) ([]*leaving, error) {
	if a.seen.Load() == nil {
		if err := a.detectType(ctx); err != nil {
			return nil, err
		}
	}
	all := []*leaving{}
	for slot := from; slot <= to; slot++ {
		for _, n := range *a.seen.Load() {
			all = append(all, &leaving{names: n, slot: slot, told: transport.Absent})
		}
	}
	return all, nil
}

// lookForSlots notes which slots are vacant. A slot that exists again can be held again at any time, so there is
// nothing to wait for. tell has the user told what keeps a slot from being vacant.
func (a *action) lookForSlots(ctx context.Context, waited []*leaving, tell bool) error {
	for batch := range slices.Chunk(waited, slots.LargestBatch/2) {
		var queues []string
		for _, l := range batch {
			queues = append(queues, l.names.Holds(l.slot), l.names.Exists(l.slot))
		}
		found, err := a.see(ctx, queues)
		if err != nil {
			return err
		}
		for i, l := range batch {
			held, exists := found[2*i], found[2*i+1]
			l.removed = l.removed || exists == transport.Absent
			switch {
			case l.removed && exists == transport.Present:
				return lock.Errorf(lock.ErrBusy, "slot %d of %s was made again meanwhile", l.slot, a.names.ID)
			case held == transport.Absent:
				if l.vacant, err = a.vacant(ctx, l); err != nil {
					return err
				}
			default:
				l.absent = time.Time{}
				if tell && l.told != held {
					l.told = held
					a.tellOf(l)
				}
			}
		}
	}
	return nil
}

// tellOf tells the user what is known of B.
func (a *action) tellOf(l *leaving) {
	if l.told == transport.Present {
		a.dialer.Log.Info("the slot is still held", "slot", l.slot)
	} else {
		a.dialer.Log.Warn("the broker cannot say whether the slot is held", "slot", l.slot,
			"queue", l.names.Holds(l.slot))
	}
}

// see probes queues, or looks them up where probes are not answered, over the connection that does not publish.
func (a *action) see(ctx context.Context, queues []string) (found []transport.Presence, err error) {
	if !a.muted {
		found, err := a.publisher.Probe(ctx, queues)
		a.muted = errors.Is(err, lock.ErrDenied)
		if !a.muted && !errors.Is(err, transport.ErrUnanswered) {
			return found, err
		}
	}
	return a.channel.LookAll(ctx, queues)
}

// vacant judges as a successor would: B that is gone says that nobody holds the slot, and only the ledger, or time,
// that what ran in it is dead. The ledger is read again only when it has changed.
func (a *action) vacant(ctx context.Context, l *leaving) (bool, error) {
	if l.absent.IsZero() {
		l.absent, l.records, l.known = time.Now(), -1, ledger.History{}
	}
	if a.delay > 0 {
		left := a.delay - time.Since(l.absent)
		if left > 0 && !l.said && (!a.said || l.told != transport.Absent) { // as a rule all wait for as long
			l.said, a.said = true, true
			a.dialer.Log.Info("waiting for as long as the last command may live", "slot", l.slot,
				"at_most", left.Round(time.Millisecond).String())
		}
		return left <= 0, nil
	}
	records, consumers, err := a.channel.Count(ctx, l.names.Ledger(l.slot))
	taken := consumers > 0 // somebody's command has just started there, or is about to; or that is not known
	if err == nil && !taken && records != l.records {
		err = a.readLedger(ctx, l, records)
		taken = errors.Is(err, transport.ErrTaken) || errors.Is(err, lock.ErrSilent)
	}
	switch {
	case taken:
		l.absent = time.Time{}
		return false, nil
	case errors.Is(err, transport.ErrNoQueue): // nobody has ever held it
		return true, nil
	case errors.Is(err, lock.ErrDenied), errors.Is(err, lock.ErrUnknown), errors.Is(err, transport.ErrTaken):
		// Time will tell.
	case err != nil:
		return false, err
	case l.known.AllReleased():
		return true, nil
	}
	// The lease of our own connection says nothing of the holders'.
	left := l.known.Wait(ledger.MaxLease) - time.Since(l.absent)
	if left > 0 && !l.said {
		l.said = true
		last := l.known.Awaited()
		a.dialer.Log.Info("waiting for the last holder's release", "slot", l.slot, "term", last.Term,
			"host", last.Host, "at_most", left.Round(time.Millisecond).String())
	}
	return left <= 0, nil
}

// readLedger reads the ledger of a slot that nobody holds, and leaves it as it was. It takes the reader's place for
// that moment. Errors: as ledger.Enter, but for ErrEmpty.
func (a *action) readLedger(ctx context.Context, l *leaving, records int) error {
	enter := ledger.Enter
	if l.names.Replicated() {
		enter = ledger.EnterReplicated
	}
	reader, err := enter(ctx, a.channel.Conn().Channel(), l.names.Ledger(l.slot), ledger.Visitor{})
	if err != nil && !errors.Is(err, ledger.ErrEmpty) {
		return err
	}
	l.known, l.records = ledger.History{}, records
	if err != nil {
		return nil
	}
	if !reader.Empty {
		l.known = reader.View().History
	}
	return reader.Close(ctx)
}
