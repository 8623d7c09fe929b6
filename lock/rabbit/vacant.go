package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
)

// Looking whether a slot is vacant: soon at first, then as seldom as a person
// who waits does not mind.
const (
	firstVacantPause = 50 * time.Millisecond
	lastVacantPause  = time.Second
)

// vacancy is a wait until slots are vacant.
type vacancy struct {
	slots  []*leaving // not known to be vacant yet, the lowest first
	reason string     // why it cannot see, as the user was told
}

// leaving is a slot that is waited for.
type leaving struct {
	slot    int
	absent  time.Time // since when B is seen not to be there; zero: it was there
	records int       // how many the ledger had when it was read; -1: not read since absent
	known   history   // what they said
	said    bool      // the user was told what is waited for
	told    presence  // what the user was told of B last; absent: nothing
	removed bool      // A was seen not to be there
}

// AwaitVacant implements lock.Administrator. A wait of days outlives the node
// that it began with.
func (a *administrator) AwaitVacant(ctx context.Context, from, to int) error {
	v := &vacancy{}
	for slot := from; slot <= to; slot++ {
		v.slots = append(v.slots, &leaving{slot: slot, told: absent})
	}
	for pause := firstVacantPause; len(v.slots) > 0; pause = min(2*pause, lastVacantPause) {
		err := a.awaitVacant(ctx, v)
		if errors.Is(err, lock.ErrUnreachable) && !a.over() {
			if ctx.Err() == nil {
				v.lose(a.dialer.log, a.id, err)
			}
			err = sleep(ctx, pause)
		}
		switch {
		case errors.Is(err, lock.ErrBusy):
			return err
		case err != nil:
			return fmt.Errorf("slot %d of %s is not known to be vacant: %w", v.slots[0].slot, a.id, err)
		}
	}
	return nil
}

// lose is for a connection that is gone. While nobody looks, any B may come back
// and go once more, so it has to be seen to be absent anew.
func (v *vacancy) lose(log hclog.Logger, id lock.ID, err error) {
	for _, l := range v.slots {
		l.absent = time.Time{}
	}
	level := hclog.Warn
	if err.Error() == v.reason {
		level = hclog.Debug
	}
	v.reason = err.Error()
	log.Log(level, "cannot see whether the slot is vacant; trying again", "lock", id.Name, "slot", v.slots[0].slot, "error", err)
}

// awaitVacant is AwaitVacant on one connection. Each pass looks at all slots, so
// that their handover delays pass at the same time.
func (a *administrator) awaitVacant(ctx context.Context, v *vacancy) error {
	act, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer act.end(ctx)
	for pause := firstVacantPause; ; pause = min(2*pause, lastVacantPause) {
		if err := act.lookForSlots(ctx, v.slots, pause > firstVacantPause); err != nil {
			return err
		}
		v.slots = slices.DeleteFunc(v.slots, func(l *leaving) (vacant bool) {
			if err == nil && !l.absent.IsZero() {
				vacant, err = act.vacant(ctx, l)
			}
			return vacant
		})
		if err != nil || len(v.slots) == 0 {
			return err
		}
		if err = sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// lookForSlots notes which slots nobody holds. A slot that exists again can be held
// again at any time, so there is nothing to wait for. tell has the user told what
// keeps a slot from being vacant.
func (a *action) lookForSlots(ctx context.Context, slots []*leaving, tell bool) error {
	for batch := range slices.Chunk(slots, largestBatch/2) {
		var queues []string
		for _, l := range batch {
			queues = append(queues, a.names.holds(l.slot), a.names.exists(l.slot))
		}
		found, err := a.see(ctx, queues)
		if err != nil {
			return err
		}
		for i, l := range batch {
			l.removed = l.removed || found[2*i+1] == absent
			if l.removed && found[2*i+1] == present {
				return lock.Errorf(lock.ErrBusy, "slot %d of %s was made again meanwhile", l.slot, a.id)
			}
			l.see(found[2*i])
			if tell {
				a.tellOf(l, found[2*i])
			}
		}
	}
	return nil
}

// tellOf tells the user once what is known of B.
func (a *action) tellOf(l *leaving, b presence) {
	if b == l.told || b == absent {
		return
	}
	l.told = b
	if b == present {
		a.dialer.log.Info("the slot is still held", "lock", a.id.Name, "slot", l.slot)
	} else {
		a.dialer.log.Warn("the broker cannot say whether the slot is held", "lock", a.id.Name, "slot", l.slot, "queue", a.names.holds(l.slot))
	}
}

// see probes queues, or looks them up where probes are not answered.
func (a *action) see(ctx context.Context, queues []string) ([]presence, error) {
	if !a.muted {
		found, err := a.courier.probe(ctx, queues)
		a.muted = errors.Is(err, lock.ErrDenied)
		if !a.muted && !errors.Is(err, errNoCourier) {
			return found, err
		}
	}
	return a.lookUp(ctx, queues)
}

// lookUp is a probe over the connection that does not publish.
func (a *action) lookUp(ctx context.Context, queues []string) (found []presence, err error) {
	for _, queue := range queues {
		p := unknown
		err := a.line.find(ctx, queue)
		switch {
		case errors.Is(err, errNoQueue):
			p = absent
		case err == nil, errors.Is(err, errTaken):
			p = present
		case !errors.Is(err, lock.ErrUnknown):
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

// see notes what is known of B.
func (l *leaving) see(b presence) {
	switch {
	case b != absent:
		l.absent = time.Time{}
	case l.absent.IsZero():
		l.absent, l.records, l.known = time.Now(), -1, history{}
	}
}

// vacant judges as a successor would: B that is gone says that nobody holds the
// slot, and only the ledger, or time, that what ran in it is dead. The ledger is
// read again only when it has changed.
func (a *action) vacant(ctx context.Context, l *leaving) (bool, error) {
	records, _, err := a.line.count(ctx, a.names.ledger(l.slot))
	switch {
	case errors.Is(err, errNoQueue): // nobody has ever held it
		return true, nil
	case err == nil && records != l.records:
		var read bool
		if read, err = a.readLedger(ctx, l); err == nil && !read {
			l.absent = time.Time{} // somebody has claimed it
			return false, nil
		}
	}
	switch {
	case errors.Is(err, lock.ErrDenied), errors.Is(err, lock.ErrUnknown), errors.Is(err, errTaken): // time will tell
	case err != nil:
		return false, err
	case l.known.over():
		return true, nil
	}
	// The lease of our own connection says nothing of the holders'.
	left := l.known.wait(longestLease) - time.Since(l.absent)
	if left > 0 && !l.said {
		l.said = true
		last := l.known.newest()
		a.dialer.log.Info("waiting for the last holder's release", "lock", a.id.Name, "slot", l.slot, "term", last.Term,
			"host", last.Host, "at_most", left.Round(time.Millisecond).String())
	}
	return left <= 0, nil
}

// readLedger reads the ledger of a slot that nobody holds, and leaves it as it
// was. It claims B for that moment: records in its hand would be missing to a
// newcomer. It returns false if the slot is somebody's.
func (a *action) readLedger(ctx context.Context, l *leaving) (read bool, err error) {
	b := a.names.holds(l.slot)
	if err := a.line.claim(ctx, b); errors.Is(err, errTaken) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	r := &reader{line: &line{conn: a.conn}, queue: a.names.ledger(l.slot), more: true}
	for r.more && err == nil {
		err = r.line.do(ctx, reading(r.queue), r.get)
	}
	records := int(r.last) // delivery tags of a channel begin at 1
	if end := r.putBack(ctx); err == nil {
		err = end
	}
	if gone := a.line.remove(ctx, b); err == nil {
		err = gone
	}
	if err == nil {
		l.known, l.records = r.known, records
	}
	return err == nil, err
}
