// Package display shows people and scripts what is known of a lock: as a table, as a screen of a terminal that is kept
// up to date, and as JSON.
//
//	err := display.View{ID: id, Seen: seen, Now: time.Now()}.WriteTable(os.Stdout)
//	err := view.Live(ctx, terminal, looks)
//
// It knows no broker. What others say of themselves it makes harmless to a terminal.
package display

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"berth/internal/inquire"
	"berth/lock"
	"berth/supervisor"
)

// View is what is shown of a lock.
type View struct {
	ID     lock.ID
	Naming []string // flags with which another command finds the same lock
	Seen   inquire.Seen
	Now    time.Time

	changed map[int]time.Time // when slots have changed last
}

// Summary is the lock in one line.
func (v View) Summary() string {
	slots := v.Seen.Status.Slots
	switch {
	case v.Seen.Err != nil && len(slots) == 0:
		return v.ID.String()
	case len(slots) == 0:
		return v.ID.Absent(v.Naming...).Error()
	}
	held, free, unknown := 0, 0, 0
	for _, s := range slots {
		switch s.State {
		case lock.SlotHeld:
			held++
		case lock.SlotFree:
			free++
		default:
			unknown++
		}
	}
	text := fmt.Sprintf("%s: %d of %d slots held", v.ID, held, len(slots))
	if len(slots) == 1 {
		text = fmt.Sprintf("%s: %s", v.ID, occupancy(slots[0]))
	} else if unknown > 0 {
		text += fmt.Sprintf(", %d free, %d unknown", free, unknown)
	}
	return text + ", " + waiting(v.Seen.Status.Waiting)
}

func waiting(n int) string {
	switch {
	case n < 0:
		return "not known how many wait"
	case n == 0:
		return "none wait"
	case n == 1:
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", n)
}

// Problems are what is wrong, in a sentence each. What is wrong with several slots is said once.
func (v View) Problems() (all []string) {
	if err := v.Seen.Err; err != nil {
		all = append(all, "cannot look: "+oneLine(err.Error()))
	}
	affected := map[string][]int{}
	var order []string
	add := func(slot int, problem string) {
		if problem == "" {
			return
		}
		if affected[problem] == nil {
			order = append(order, problem)
		}
		affected[problem] = append(affected[problem], slot)
	}
	for _, s := range v.Seen.Status.Slots {
		add(s.Slot, oneLine(s.Problem))
		if s.Holder != nil {
			add(s.Slot, inquire.Printable(s.Holder.Trouble))
		}
	}
	for _, problem := range order {
		which := ranges(affected[problem])
		if len(v.Seen.Status.Slots) > 1 {
			problem = which + ": " + problem
		}
		all = append(all, problem)
	}
	return all
}

// ranges returns "slot 3" or "slots 1-3, 7".
func ranges(slots []int) string {
	if len(slots) == 1 {
		return fmt.Sprintf("slot %d", slots[0])
	}
	slots = slices.Sorted(slices.Values(slots))
	var parts []string
	for len(slots) > 0 {
		n := 1
		for n < len(slots) && slots[n] == slots[0]+n {
			n++
		}
		part := fmt.Sprint(slots[0])
		if n > 1 {
			part = fmt.Sprintf("%d-%d", slots[0], slots[n-1])
		}
		parts = append(parts, part)
		slots = slots[n:]
	}
	return "slots " + strings.Join(parts, ", ")
}

// occupancy says whether a slot is held.
func occupancy(s lock.SlotStatus) string {
	if s.State != lock.SlotHeld && s.State != lock.SlotFree {
		return string(lock.SlotUnknown)
	}
	return string(s.State)
}

// state is occupancy, or what a holder does whose command does not run.
func state(s lock.SlotStatus) string {
	if s.State != lock.SlotHeld || s.Holder == nil || s.Holder.State == string(supervisor.Running) {
		return occupancy(s)
	}
	return inquire.Printable(s.Holder.State)
}

// silent reports whether somebody may have a slot who does not say so.
func silent(s lock.SlotStatus) bool {
	return s.Holder == nil && s.State != lock.SlotFree
}

// troubled reports whether a slot deserves a look.
func troubled(s lock.SlotStatus) bool {
	return s.Problem != "" || s.Holder != nil && (s.Holder.Trouble != "" || s.Holder.Ending)
}

const day = 24 * time.Hour

// age returns how long ago something was, in three characters; "" if it is not known.
func (v View) age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(v.Now.Sub(t), 0) // another host's clock may be ahead
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 100*day:
		return fmt.Sprintf("%dd", d/day)
	case d < 700*day:
		return fmt.Sprintf("%dw", d/(7*day))
	}
	return fmt.Sprintf("%dy", d/(365*day))
}

// oneLine is for what berth itself says, which is not cut. It can quote others.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}
