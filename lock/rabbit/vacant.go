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
	slots  []int             // not known to be vacant yet, the lowest first
	absent map[int]time.Time // since when B of a slot is seen not to be there
	said   map[int]bool      // of which slots the user was told what it waits for
	blind  string            // why it cannot see, as the user was told
}

// AwaitVacant implements lock.Administrator. A wait of days outlives the node
// that it began with.
func (a *administrator) AwaitVacant(ctx context.Context, from, to int) error {
	v := &vacancy{absent: map[int]time.Time{}, said: map[int]bool{}}
	for slot := from; slot <= to; slot++ {
		v.slots = append(v.slots, slot)
	}
	for pause := firstVacantPause; len(v.slots) > 0; pause = min(2*pause, lastVacantPause) {
		err := a.awaitVacant(ctx, v)
		if errors.Is(err, lock.ErrUnreachable) && !a.over() {
			if ctx.Err() == nil {
				v.lose(a.dialer.log, a.id, err)
			}
			err = sleep(ctx, pause)
		}
		if err != nil {
			return fmt.Errorf("slot %d of %s is not known to be vacant: %w", v.slots[0], a.id, err)
		}
	}
	return nil
}

// lose is for a connection that is gone. While nobody looks, any B may come back
// and go once more, so it has to be seen to be absent anew.
func (v *vacancy) lose(log hclog.Logger, id lock.ID, err error) {
	clear(v.absent)
	level := hclog.Warn
	if err.Error() == v.blind {
		level = hclog.Debug
	}
	v.blind = err.Error()
	log.Log(level, "cannot see whether the slot is vacant; trying again", "lock", id.Name, "slot", v.slots[0], "error", err)
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
		v.slots = slices.DeleteFunc(v.slots, func(slot int) (vacant bool) {
			if err == nil {
				vacant, err = act.vacant(ctx, v, slot)
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

// vacant judges as a successor would: B that is gone says that nobody holds the
// slot, and only the ledger, or time, that what ran in it is dead.
func (a *action) vacant(ctx context.Context, v *vacancy, slot int) (bool, error) {
	err := a.line.find(ctx, a.names.holds(slot))
	switch {
	case errors.Is(err, errNoQueue):
	case err == nil, errors.Is(err, errTaken), errors.Is(err, lock.ErrUnknown):
		delete(v.absent, slot)
		return false, nil
	default:
		return false, err
	}
	if v.absent[slot].IsZero() {
		v.absent[slot] = time.Now()
	}
	known, err := a.readLedger(ctx, slot)
	if errors.Is(err, lock.ErrDenied) { // said of one that does not exist, too
		if missing := a.line.find(ctx, a.names.ledger(slot)); missing != nil {
			err = missing
		}
	}
	switch {
	case errors.Is(err, errNoQueue): // nobody has ever held it
		return true, nil
	case errors.Is(err, lock.ErrDenied), errors.Is(err, lock.ErrUnknown), errors.Is(err, errTaken): // time will tell
	case err != nil:
		return false, err
	case known.over():
		return true, nil
	}
	// The lease of our own connection says nothing of the holders'.
	left := known.wait(longestLease) - time.Since(v.absent[slot])
	if left > 0 && !v.said[slot] {
		v.said[slot] = true
		a.dialer.log.Info("waiting for the last holder's release", "lock", a.id.Name, "slot", slot, "term", known.newest.Term,
			"host", known.newest.Host, "at_most", left.Round(time.Millisecond).String())
	}
	return left <= 0, nil
}

// readLedger reads the ledger of a slot that nobody holds, and leaves it as it was.
func (a *action) readLedger(ctx context.Context, slot int) (history, error) {
	r := &reader{line: &line{conn: a.conn}, queue: a.names.ledger(slot)}
	r.more = true
	var err error
	for r.more && err == nil {
		err = r.line.do(ctx, reading(r.queue), r.get)
	}
	if end := r.putBack(ctx); err == nil {
		err = end
	}
	return r.known, err
}
