package display

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth/internal/inquire"
	"berth/lock"
)

const (
	// highlighted is how long a slot that has changed stands out.
	highlighted = 3 * time.Second
	// mostProblems is how many lines of a screen are about what is wrong, if more is to be shown than fits.
	mostProblems = 3
	// leastName is how much of a host's name is shown in a screen of many slots.
	leastName = 6
	// widestCell is as wide as it is good to read.
	widestCell = 32

	reverse, plain = "\x1b[7m", "\x1b[0m"
)

// Screen returns the lock as lines for a window of a terminal: a row for each slot if they find room, otherwise several
// slots in one line. Slots that have changed a moment ago stand out.
func (v View) Screen(width, height int) []string {
	lines := wrap(v.Summary(), width)
	if len(v.Seen.Status.Slots) > 0 { // it says nothing that has to be done
		lines = []string{cut(v.Summary(), width)}
	}
	foot := fmt.Sprintf("%s, Ctrl-C ends", v.Seen.At.Format("15:04:05"))
	room := height - len(lines) - 1 // one for the foot
	problems := v.problems(width, room)
	if slots := len(v.Seen.Status.Slots); slots > 0 {
		room = max(room-len(problems), 1)
		if slots+1 <= room {
			lines = append(lines, v.table(width)...)
		} else {
			cells, hidden := v.grid(width, room)
			lines = append(lines, cells...)
			foot = legend + "   " + foot
			if hidden > 0 {
				foot = fmt.Sprintf("%d slots more need a larger window, %s", hidden, foot)
			}
		}
	}
	lines = append(append(lines, problems...), cut(foot, width))
	return lines[:min(len(lines), max(height, 1))]
}

// problems returns what is wrong, in full if the slots still find room beside it. Otherwise only what is said of the
// whole lock is in full: for slots, a line each, and not for all.
func (v View) problems(width, room int) (lines []string) {
	all := v.Problems()
	for _, p := range all {
		lines = append(lines, wrap(p, width)...)
	}
	slots := len(v.Seen.Status.Slots)
	if slots == 0 || slots+1+len(lines) <= room || len(lines) < room && v.fits(width, room-len(lines)) {
		return lines
	}
	lines = nil
	if v.Seen.Err != nil {
		lines, all = wrap(all[0], width), all[1:]
	}
	for i, p := range all {
		if i == mostProblems-1 && len(all) > mostProblems {
			p = fmt.Sprintf("and %d more; see berth status without --watch", len(all)-i)
			return append(lines, cut(p, width))
		}
		lines = append(lines, cut(p, width))
	}
	return lines
}

// fits reports whether no slot is left out.
func (v View) fits(width, height int) bool {
	_, hidden := v.grid(width, height)
	return hidden == 0
}

// table is a row for each slot.
func (v View) table(width int) []string {
	lines := v.rows(v.narrowed(width))
	for i := range lines {
		lines[i] = cut(lines[i], width)
		if i > 0 {
			lines[i] = v.marked(v.Seen.Status.Slots[i-1].Slot, pad(lines[i], width))
		}
	}
	return lines
}

// legend explains the marks of a cell.
const legend = "> next is ready  ! see below  ? no answer"

// grid returns several slots a line, in order from top to bottom, and how many slots find no room.
func (v View) grid(width, height int) (lines []string, hidden int) {
	slots := v.Seen.Status.Slots
	digits := len(strconv.Itoa(slots[len(slots)-1].Slot))
	least := digits + len("> ") + leastName + len(" 99d")
	most := max((width+1)/(least+1), 1) // cells in a line
	wanted := min((len(slots)+height-1)/height, most)
	size := min((width+1)/wanted-1, widestCell)
	shown := min(len(slots), wanted*height)
	height = (shown + wanted - 1) / wanted
	for row := range height {
		var line []string
		for i := row; i < shown; i += height {
			line = append(line, v.marked(slots[i].Slot, v.cell(slots[i], digits, size)))
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return lines, len(slots) - shown
}

// cell is one slot: its number, a mark, who has it and for how long.
func (v View) cell(s lock.SlotStatus, digits, size int) string {
	mark, name, age := " ", state(s), ""
	if s.Holder != nil {
		name, _, _ = strings.Cut(inquire.Printable(s.Holder.Host), ".")
		age = v.age(s.Holder.Since)
	}
	switch {
	case s.State == lock.SlotHeld && s.Holder == nil, name == string(lock.SlotUnknown):
		mark = "?"
	case troubled(s):
		mark = "!"
	case s.HasNext:
		mark = ">"
	}
	room := size - digits - len("> ") - len(" 99d")
	return cut(fmt.Sprintf("%*d%s %s %3s", digits, s.Slot, mark, pad(tail(name, room), room), age), size)
}

// tail returns the end of a name that has room, with a mark if it is not all: names of hosts are different there.
func tail(name string, width int) string {
	letters := []rune(name)
	if len(letters) <= width {
		return name
	}
	return "~" + string(letters[len(letters)-max(width-1, 0):])
}

// marked makes a slot that has changed stand out.
func (v View) marked(slot int, text string) string {
	if at, found := v.changed[slot]; found && v.Now.Sub(at) < highlighted {
		return reverse + text + plain
	}
	return text
}
