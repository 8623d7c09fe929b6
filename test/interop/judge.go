// Package interop has berth contend for locks with an independent client, and judges what both have written down. The
// client is client.py, which knows docs/protocol.md and nothing of berth.
package interop

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// life is one holding, as its holder wrote it down: from its first to its last sign of life.
type life struct {
	who         string // the file, which begins with berth or python
	slot        int
	term        uint64
	first, last float64 // seconds on CLOCK_BOOTTIME
}

func (l life) String() string {
	return fmt.Sprintf("%s alive in slot %d from %.3f to %.3f", l.who, l.slot, l.first, l.last)
}

// lives reads what was written down. The last line of somebody who was killed may be cut.
func lives(dir string) (all []life, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(text), "\n")
		if lines = lines[:len(lines)-1]; len(lines) < 2 {
			continue // it has not begun
		}
		l := life{who: f.Name()}
		if _, err := fmt.Sscan(lines[0], &l.slot, &l.term); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		for line, into := range map[string]*float64{lines[1]: &l.first, lines[len(lines)-1]: &l.last} {
			if *into, err = strconv.ParseFloat(line, 64); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		if len(lines) == 2 {
			l.first = l.last
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b life) int { return cmp.Compare(a.first, b.first) })
	return all, nil
}

// judge returns what must not be: two in one slot, more than there are slots, a term that does not grow.
func judge(all []life, slots int) (problems []string) {
	var alive []life
	terms := map[int]uint64{}
	for _, l := range all { // in order of their first sign
		alive = slices.DeleteFunc(alive, func(other life) bool { return other.last < l.first })
		for _, other := range alive {
			if other.slot == l.slot {
				problems = append(problems, fmt.Sprintf("two in one slot: %s, %s", other, l))
			}
		}
		if alive = append(alive, l); len(alive) > slots {
			problems = append(problems, fmt.Sprintf("%d at once: %v", len(alive), alive))
		}
		if l.term <= terms[l.slot] {
			problems = append(problems, fmt.Sprintf("term %d after %d: %s", l.term, terms[l.slot], l))
		}
		terms[l.slot] = l.term
	}
	return problems
}
