package display

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mitchellh/go-wordwrap"

	"berth/internal/inquire"
	"berth/lock"
)

// column is one of the table.
type column struct {
	title string
	drop  int // those with the highest number are left out first where there is no room; 0: never
	value func(View, lock.SlotStatus) string
}

var columns = []column{
	{"SLOT", 0, func(_ View, s lock.SlotStatus) string { return strconv.Itoa(s.Slot) }},
	{"STATE", 0, func(_ View, s lock.SlotStatus) string { return state(s) }},
	{"HOST", 0, ofHolder(func(_ View, r lock.Report) string { return inquire.Printable(r.Host) })},
	{"PID", 3, ofHolder(func(_ View, r lock.Report) string { return strconv.Itoa(r.PID) })},
	{"TERM", 5, ofHolder(func(_ View, r lock.Report) string { return strconv.FormatUint(r.Term, 10) })},
	{"SINCE", 1, ofHolder(func(v View, r lock.Report) string { return v.age(r.Since) })},
	{"VERIFIED", 4, ofHolder(func(v View, r lock.Report) string { return v.age(r.Verified) })},
	{"COMMAND", 2, ofHolder(func(_ View, r lock.Report) string { return inquire.Printable(r.Command) })},
	{"NEXT", 1, func(_ View, s lock.SlotStatus) string { return successor(s) }},
}

// ofHolder is a column about the holder of the slot.
func ofHolder(value func(View, lock.Report) string) func(View, lock.SlotStatus) string {
	return func(v View, s lock.SlotStatus) string {
		switch {
		case s.Holder != nil:
			return value(v, *s.Holder)
		case s.State == lock.SlotHeld:
			return "?"
		}
		return ""
	}
}

// successor names the berth that starts next.
func successor(s lock.SlotStatus) string {
	switch {
	case s.Successor != nil:
		return inquire.Printable(s.Successor.Host) + ":" + strconv.Itoa(s.Successor.PID)
	case s.HasSuccessor:
		return "?"
	}
	return ""
}

// WriteTable prints the lock: a line that sums it up, a row for each slot, and what is wrong.
func (v View) WriteTable(w io.Writer) error {
	lines := []string{v.Summary()}
	if len(v.Seen.Status.Slots) > 0 {
		lines = append(append(lines, ""), v.rows(columns)...)
	}
	if problems := v.Problems(); len(problems) > 0 {
		lines = append(append(lines, ""), problems...)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// rows returns the heads of some columns and a row for each slot.
func (v View) rows(chosen []column) []string {
	cells := v.cells(chosen)
	widths := widths(cells)
	var all []string
	for _, row := range cells {
		var line strings.Builder
		for i, text := range row {
			line.WriteString(pad(text, widths[i]) + "  ")
		}
		all = append(all, strings.TrimRight(line.String(), " "))
	}
	return all
}

// cells returns what stands in the table, heads first.
func (v View) cells(chosen []column) [][]string {
	head := make([]string, len(chosen))
	for i, c := range chosen {
		head[i] = c.title
	}
	all := [][]string{head}
	for _, s := range v.Seen.Status.Slots {
		row := make([]string, len(chosen))
		for i, c := range chosen {
			if row[i] = c.value(v, s); row[i] == "" {
				row[i] = "-"
			}
		}
		all = append(all, row)
	}
	return all
}

func widths(cells [][]string) []int {
	widths := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	return widths
}

// narrowed returns the columns that find room.
func (v View) narrowed(width int) []column {
	chosen := columns
	for {
		needed := -2
		for _, w := range widths(v.cells(chosen)) {
			needed += w + 2
		}
		least := 0
		for i, c := range chosen {
			if c.drop > chosen[least].drop {
				least = i
			}
		}
		if needed <= width || chosen[least].drop == 0 {
			return chosen
		}
		chosen = append(append([]column(nil), chosen[:least]...), chosen[least+1:]...)
	}
}

// pad returns the text with spaces behind it.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

// wrap returns a text as lines, broken between words. A word that is too long is cut.
func wrap(text string, width int) []string {
	lines := strings.Split(wordwrap.WrapString(text, uint(max(width, 1))), "\n")
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}

// cut returns the beginning of a text that has room, with a mark if it is not all.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "~"
}
