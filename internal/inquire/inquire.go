// Package inquire asks about a lock from outside: what is known of it, again and again, and whether a holder will step
// down or read its configuration again.
//
//	q := &inquire.Inquiry{Inspector: backend.Inspector(id), ID: id}
//	err := q.Watch(ctx, interval, func(seen inquire.Seen) { ... })
//	asked, err := q.StepDown(ctx, slot)
//
// How a lock is looked at is up to the lock.Inspector, and how it is shown to package display.
package inquire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"berth/internal/config"
	"berth/lock"
)

const (
	// answerTime is how long an answer is waited for. A holder answers within milliseconds; one whose broker is
	// busy, or that has to connect for it, within seconds.
	answerTime = 5 * time.Second
	// mostNamed is how many holders a message lists.
	mostNamed = 10
)

// Inquiry is about one lock. Its methods are called one at a time.
type Inquiry struct {
	lock.Inspector
	ID     lock.ID
	Naming []string // flags with which another command finds the same lock
}

// Status is Look, with an error for a lock that does not exist, which says how to create it.
func (q *Inquiry) Status(ctx context.Context) (lock.Status, error) {
	now, err := q.Look(ctx)
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
	seen time.Time // when the last look began that saw it hold the slot
}

// StepDown asks the holder of a slot to end its command in order and give the slot back. Without a slot, 0, there has
// to be one holder only. Errors beside those of Look and Ask: config.ErrUsage if a slot has to be named, ErrUnknown if
// the answer cannot be read. A request that is refused is none.
func (q *Inquiry) StepDown(ctx context.Context, slot int) (Asked, error) {
	held, seen, err := q.holders(ctx, slot)
	switch {
	case err != nil:
		return Asked{}, err
	case len(held) > 1:
		return Asked{}, config.Usagef("%s has several holders; give --slot with one of: %s", q.ID, list(held))
	}
	return q.ask(ctx, held[0], lock.AskStepDown, seen)
}

// Reload asks holders to read their configuration again: that of a slot, or without one, 0, those on this host, or the
// only one there is. Errors are those of StepDown.
func (q *Inquiry) Reload(ctx context.Context, slot int, host string) (all []Asked, err error) {
	held, seen, err := q.holders(ctx, slot)
	if err != nil {
		return nil, err
	}
	if len(held) > 1 {
		here := on(host, held)
		if len(here) == 0 {
			return nil, config.Usagef("%s has several holders, none of them on this host; give --slot with one of: %s",
				q.ID, list(held))
		}
		held = here
	}
	for _, s := range held {
		asked, err := q.ask(ctx, s, lock.AskReload, seen)
		if err != nil {
			return all, err
		}
		all = append(all, asked)
	}
	return all, nil
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
		err = lock.Errorf(lock.ErrUnknown, "it is not known whether anybody holds %s", q.subject(slot))
	default:
		err = lock.Errorf(lock.ErrAbsent, "nobody holds %s", q.subject(slot))
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
	answer, err := q.Ask(limited, s.Slot, verb)
	if errors.Is(err, lock.ErrUnknown) && ctx.Err() == nil {
		who := "the holder"
		if s.Holder != nil {
			who = Who(s.Holder) + ","
		}
		return asked, fmt.Errorf("it is not known whether %s heeds this: %w; look at the status, and ask again", who, err)
	}
	if err == nil && json.Unmarshal(answer, &asked.Decision) != nil {
		err = lock.Errorf(lock.ErrUnknown, "the holder of %s has given an answer that cannot be read; it may be of "+
			"another version", q.subject(s.Slot))
	}
	return asked, err
}

// on returns those of the slots that are held on a host.
func on(host string, held []lock.SlotStatus) (here []lock.SlotStatus) {
	for _, s := range held {
		if s.Holder != nil && s.Holder.Host == host {
			here = append(here, s)
		}
	}
	return here
}

// list returns "1 (web1, pid 815), 2 (web2, pid 99)".
func list(held []lock.SlotStatus) string {
	var all []string
	for i, s := range held {
		if i == mostNamed {
			all = append(all, fmt.Sprintf("and %d more", len(held)-mostNamed))
			break
		}
		all = append(all, fmt.Sprintf("%d (%s)", s.Slot, Who(s.Holder)))
	}
	return strings.Join(all, ", ")
}

// Who names a berth for messages: host and process.
func Who(r *lock.Report) string {
	if r == nil {
		return "which does not say who it is"
	}
	return fmt.Sprintf("%s, pid %d", Printable(r.Host), r.PID)
}

// longest is how many characters of what somebody says of itself are shown.
const longest = 100

// Printable returns what somebody else has said in a form that does nothing to a terminal: one line, not endless.
func Printable(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longest {
			return b.String() + "..."
		}
		if !printable(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}
