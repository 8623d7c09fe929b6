// Package inquire asks about a lock from outside: what is known of it, again and again, and whether a holder will step
// down or read its configuration again.
//
//	q := &inquire.Inquiry{Inspector: backend.Inspector(id), ID: id}
//	err := q.Watch(ctx, interval, func(seen inquire.Seen) { ... })
//	asked, err := q.StepDown(ctx, slot)
//	decision, err := inquire.ReloadProcess(ctx, pid)
//
// How a lock is looked at is up to the lock.Inspector, and how it is shown to package display.
package inquire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"berth/internal/config"
	"berth/internal/control"
	"berth/lock"
)

const (
	// answerTime is how long an answer is waited for. A holder answers within milliseconds; one whose broker is
	// busy, or that has to connect for it, within seconds.
	answerTime = 5 * time.Second
	// maxNamed is how many holders a message lists.
	maxNamed = 10
)

// Inquiry is about one lock. Its methods are called one at a time.
type Inquiry struct {
	Inspector lock.Inspector
	ID        lock.ID
	Naming    []string // flags with which another command finds the same lock
}

// Status is Look, with an error for a lock that does not exist, which says how to create it.
func (q *Inquiry) Status(ctx context.Context) (lock.Status, error) {
	now, err := q.Inspector.Look(ctx)
	if err == nil && len(now.Slots) == 0 {
		err = q.ID.Absent(q.Naming...)
	}
	return now, err
}

// Asked is what became of a request.
type Asked struct {
	Slot     int
	Holder   *lock.Report // who was asked; nil: it did not say who it is
	Decision lock.Decision

	at   time.Time // when it was asked
	seen time.Time // when it is last known to have held the slot
}

// StepDown asks the holder of a slot to end its command cleanly and give the slot back. Without a slot, 0, there has to
// be one holder only. Errors beside those of Look and Ask: config.ErrUsage if a slot has to be named, ErrUnknown if the
// answer cannot be read. A request that is refused is none.
func (q *Inquiry) StepDown(ctx context.Context, slot int) (Asked, error) {
	return q.askHolder(ctx, slot, lock.AskStepDown)
}

// Reload asks the holder of a slot to read its configuration again. Slot and errors are as those of StepDown.
func (q *Inquiry) Reload(ctx context.Context, slot int) (Asked, error) {
	return q.askHolder(ctx, slot, lock.AskReload)
}

// StepDownAny is StepDown for a berth that is to follow the holder, whichever slot that has: without one it asks the
// first of several holders. It looks at the lock only for that, and its errors advise no user to ask again.
func (q *Inquiry) StepDownAny(ctx context.Context, slot int) (Asked, error) {
	s, seen := lock.SlotStatus{Slot: slot}, time.Now()
	if slot == 0 {
		held, looked, err := q.holders(ctx, slot)
		if err != nil {
			return Asked{}, err
		}
		s, seen = held[0], looked
	}
	return q.ask(ctx, s, lock.AskStepDown, seen)
}

// ReloadProcess asks the berth that is process pid of this host to read its configuration again. Errors beside those of
// control.AskProcess: ErrUnknown if the answer cannot be read.
func ReloadProcess(ctx context.Context, pid int) (lock.Decision, error) {
	answer, err := control.AskProcess(ctx, pid, lock.AskReload)
	if err != nil {
		return lock.Decision{}, err
	}
	return lock.ReadDecision(fmt.Sprintf("process %d", pid), answer)
}

// askHolder asks the holder of a slot, or the only one there is.
func (q *Inquiry) askHolder(ctx context.Context, slot int, verb lock.Verb) (Asked, error) {
	held, seen, err := q.holders(ctx, slot)
	switch {
	case err != nil:
		return Asked{}, err
	case len(held) > 1:
		return Asked{}, config.Usagef("%s has several holders; give --slot with one of: %s", q.ID, list(held))
	}
	asked, err := q.ask(ctx, held[0], verb, seen)
	if errors.Is(err, lock.ErrUnknown) && ctx.Err() == nil {
		who := "the holder"
		if asked.Holder != nil {
			who = Who(asked.Holder) + ","
		}
		err = fmt.Errorf("it is not known whether %s agrees: %w; look at the status, and ask again", who, err)
	}
	return asked, err
}

// holders returns the slots that are held, or only the one that is wanted, and when the look at them began.
func (q *Inquiry) holders(ctx context.Context, slot int) (held []lock.SlotStatus, seen time.Time, err error) {
	seen = time.Now()
	now, err := q.Status(ctx)
	if err != nil {
		return nil, seen, err
	}
	if last := now.Slots[len(now.Slots)-1].Slot; slot > last {
		return nil, seen, config.Usagef("--slot %d: the last slot of %s is %d", slot, q.ID, last)
	}
	unknown := false
	for _, s := range now.Slots {
		if slot != 0 && s.Slot != slot {
			continue
		}
		switch s.State {
		case lock.SlotHeld:
			held = append(held, s)
		case lock.SlotFree:
		default:
			unknown = true
		}
	}
	switch {
	case len(held) > 0:
	case unknown:
		err = lock.Errorf(lock.ErrUnknown, "it is not known whether %s is held", q.subject(slot))
	default:
		err = lock.Errorf(lock.ErrAbsent, "%s is not held", q.subject(slot))
	}
	return held, seen, err
}

// subject is what a message is about.
func (q *Inquiry) subject(slot int) string {
	if slot == 0 {
		return q.ID.String()
	}
	return fmt.Sprintf("slot %d of %s", slot, q.ID)
}

// ask asks the holder of one slot.
func (q *Inquiry) ask(ctx context.Context, s lock.SlotStatus, verb lock.Verb, seen time.Time) (Asked, error) {
	asked := Asked{Slot: s.Slot, Holder: s.Holder, at: time.Now(), seen: seen}
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err := q.Inspector.Ask(limited, s.Slot, verb)
	if err == nil {
		asked.Decision, err = lock.ReadDecision("the holder of "+q.subject(s.Slot), answer)
	}
	if asked.Decision.Accepted && asked.Decision.Why == "" { // otherwise it may be giving the slot back already
		asked.seen = asked.at
	}
	return asked, err
}

// list returns "1 (web1, pid 815), 2 (web2, pid 99)".
func list(held []lock.SlotStatus) string {
	var all []string
	for i, s := range held {
		if i == maxNamed {
			all = append(all, fmt.Sprintf("and %d more", len(held)-maxNamed))
			break
		}
		all = append(all, fmt.Sprintf("%d (%s)", s.Slot, Who(s.Holder)))
	}
	return strings.Join(all, ", ")
}
