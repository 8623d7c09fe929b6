package display

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"berth/internal/inquire"
	"berth/lock"
)

const (
	// highlighted is how long a slot that has changed stands out.
	highlighted = 3 * time.Second
	// maxProblems is how many lines of a screen are about what is wrong, if more is to be shown than fits.
	maxProblems = 3
	// minName is how much of a host's name is shown in a screen of many slots.
	minName = 6
	// widestCell is as wide as it is good to read.
	widestCell = 32

	// Red and amber are the terminal's own (ECMA-48, SGR).
	reverse, bold, red, amber, plain = "\x1b[7m", "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
)

// Screen returns the lock as lines for a window of a terminal: a row for each slot if they find room, otherwise several
// slots in one line. Slots that have changed a moment ago stand out; what is wrong is in colour for as long as it is.
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
			if v.fits(width, room-1) {
				lines, room = append(lines, v.heads(width, room-1)), room-1
			}
			cells, hidden := v.grid(width, room)
			lines = append(lines, cells...)
			foot = legend + "   " + foot
			if hidden > 0 {
				foot = fmt.Sprintf("%d slots more need a larger window, %s", hidden, foot)
			}
		}
	}
	lines = append(append(lines, problems...), colouredLegend.Replace(cut(foot, width)))
	lines[0] = bold + lines[0] + plain
	return lines[:min(len(lines), max(height, 1))]
}

// problems returns what is wrong, in full if the slots still find room beside it. Otherwise only what is said of the
// whole lock is in full: for slots, a line each, and not for all.
func (v View) problems(width, room int) (lines []string) {
	all := v.Problems()
	for _, p := range all {
		lines = append(lines, wrap(p, width)...)
	}
	if v.Seen.Err != nil {
		colour(lines[:len(wrap(all[0], width))], red)
	}
	slots := len(v.Seen.Status.Slots)
	if slots == 0 || slots+1+len(lines) <= room || len(lines) < room && v.fits(width, room-len(lines)) {
		return lines
	}
	lines = nil
	if v.Seen.Err != nil {
		lines, all = wrap(all[0], width), all[1:]
		colour(lines, red)
	}
	for i, p := range all {
		if i == maxProblems-1 && len(all) > maxProblems {
			p = fmt.Sprintf("and %d more; see berth status without --watch", len(all)-i)
			return append(lines, cut(p, width))
		}
		lines = append(lines, cut(p, width))
	}
	return lines
}

// colour has lines in a colour.
func colour(lines []string, colour string) {
	for i := range lines {
		lines[i] = colour + lines[i] + plain
	}
}

// fits reports whether no slot is left out.
func (v View) fits(width, height int) bool {
	if height < 1 {
		return false
	}
	_, hidden := v.grid(width, height)
	return hidden == 0
}

// table is a row for each slot.
func (v View) table(width int) []string {
	lines := v.rows(v.narrowed(width))
	for i := range lines {
		lines[i] = cut(lines[i], width)
		if i == 0 {
			lines[i] = bold + lines[i] + plain
		} else {
			lines[i] = v.marked(v.Seen.Status.Slots[i-1], pad(lines[i], width))
		}
	}
	return lines
}

// legend explains the marks of a cell.
const legend = "> successor ready  ! see below  ? no answer"

var colouredLegend = strings.NewReplacer("! see below", amber+"! see below"+plain, "? no answer", red+"? no answer"+plain)

// shape is how cells are laid out.
type shape struct {
	columns, rows int // rows that are needed
	digits        int // of a slot's number
	name, pid     int // columns for them; pid is 0 where there is no room
	size          int // of a cell
}

// shape returns how slots are laid out in so many lines.
func (v View) shape(width, height int) shape {
	slots := v.Seen.Status.Slots
	s := shape{digits: len(strconv.Itoa(slots[len(slots)-1].Slot))}
	around := s.digits + len("> ") + len(" 99d")
	most := max((width+1)/(around+minName+1), 1) // cells in a line
	s.columns = min((len(slots)+height-1)/height, most)
	s.size = min((width+1)/s.columns-1, widestCell)
	shown := min(len(slots), s.columns*height)
	s.rows = (shown + s.columns - 1) / s.columns
	s.name = s.size - around
	longest, pid := 0, len("PID")
	for _, slot := range slots {
		longest = max(longest, utf8.RuneCountInString(name(slot)))
		if slot.Holder != nil {
			pid = max(pid, len(strconv.Itoa(slot.Holder.PID)))
		}
	}
	if longest+1+pid <= s.name {
		s.name, s.pid, s.size = longest, pid, around+longest+1+pid
	}
	return s
}

// grid returns several slots a line, in order from top to bottom, and how many slots find no room.
func (v View) grid(width, height int) (lines []string, hidden int) {
	slots, s := v.Seen.Status.Slots, v.shape(width, height)
	shown := min(len(slots), s.columns*height)
	for row := range s.rows {
		var line []string
		for i := row; i < shown; i += s.rows {
			line = append(line, v.marked(slots[i], v.cell(slots[i], s)))
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return lines, len(slots) - shown
}

// heads says above a grid of so many lines what stands in its cells.
func (v View) heads(width, height int) string {
	s := v.shape(width, height)
	number := "SLOT"
	if s.digits < len(number)-1 {
		number = "# "
	}
	one := cut(s.text(number, "HOST", "PID", "FOR"), s.size)
	all := strings.TrimRight(strings.Repeat(one+" ", min(s.columns, len(v.Seen.Status.Slots))), " ")
	return bold + cut(all, width) + plain
}

// text is a cell: of its number and mark, who has the slot and for how long.
func (s shape) text(number, name, pid, age string) string {
	if s.pid > 0 {
		name = fmt.Sprintf("%s %*s", pad(tail(name, s.name), s.name), s.pid, pid)
	} else {
		name = pad(tail(name, s.name), s.name)
	}
	return fmt.Sprintf("%*s %s %3s", s.digits+1, number, name, age)
}

// cell is one slot.
func (v View) cell(slot lock.SlotStatus, s shape) string {
	pid, age := "", ""
	if slot.Holder != nil {
		pid, age = strconv.Itoa(slot.Holder.PID), v.age(slot.Holder.Since)
	}
	mark := " "
	switch {
	case silent(slot):
		mark = "?"
	case troubled(slot):
		mark = "!"
	case slot.HasSuccessor:
		mark = ">"
	}
	return cut(s.text(strconv.Itoa(slot.Slot)+mark, name(slot), pid, age), s.size)
}

// name is who has a slot, or what it is instead.
func name(s lock.SlotStatus) string {
	if s.Holder == nil {
		return state(s)
	}
	host, _, _ := strings.Cut(inquire.Printable(s.Holder.Host), ".")
	return host
}

// tail returns the end of a name that has room, with a mark if it is not all: names of hosts are different there.
func tail(name string, width int) string {
	letters := []rune(name)
	if len(letters) <= width {
		return name
	}
	return "~" + string(letters[len(letters)-max(width-1, 0):])
}

// marked makes a slot stand out that has changed, or with which something is wrong.
func (v View) marked(s lock.SlotStatus, text string) string {
	how := ""
	switch {
	case silent(s):
		how = red
	case troubled(s):
		how = amber
	}
	if at, found := v.changed[s.Slot]; found && v.Now.Sub(at) < highlighted {
		how += reverse
	}
	if how == "" {
		return text
	}
	return how + text + plain
}
