package history

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is the time between two steps of one process that follow each other.
type Window struct{ After, Before string }

// Windows counts how often processes went through each window, and how often something befell them there. Its zero value
// has counted nothing.
type Windows struct {
	counts    map[Window]*count
	processes map[string]*process
}

// count is how often processes went through a window, and how often something befell them there.
type count struct{ passed, hit int }

// process is where a process is.
type process struct {
	step   string        // its last one
	since  time.Duration // when that was
	struck int           // how many faults have befallen it since
}

func (w *Windows) count(of Window) *count { return entry(&w.counts, of) }

func (w *Windows) process(name string) *process { return entry(&w.processes, name) }

// entry returns what a map has for a key, and makes both where they are not there.
func entry[K comparable, V any](of *map[K]*V, key K) *V {
	if *of == nil {
		*of = map[K]*V{}
	}
	v := (*of)[key]
	if v == nil {
		v = new(V)
		(*of)[key] = v
	}
	return v
}

// Step is for a process that does something, or learns of something.
//
// A window that takes no time is none: what a process writes in one go is struck as a whole.
func (w *Windows) Step(now time.Duration, process, step string) {
	p := w.process(process)
	if now > p.since {
		c := w.count(Window{p.step, step})
		c.passed++
		c.hit += p.struck
	}
	p.step, p.since, p.struck = step, now, 0
}

// Strike is for a fault that befalls a process. One that never does anything again is counted in the window that it was
// in, whose end is not known.
func (w *Windows) Strike(process string, last bool) {
	p := w.process(process)
	if last {
		w.count(Window{p.step, "(nothing more)"}).hit++
		return
	}
	p.struck++
}

// Add adds what another one has counted.
func (w *Windows) Add(other *Windows) {
	for window, n := range other.counts {
		c := w.count(window)
		c.passed += n.passed
		c.hit += n.hit
	}
}

// after returns how often a fault came after a step, before any other.
func (w *Windows) after() map[string][2]int {
	steps := map[string][2]int{}
	for window, n := range w.counts {
		of := steps[window.After]
		of[0] += n.passed
		of[1] += n.hit
		steps[window.After] = of
	}
	return steps
}

// Print writes a table of the steps: how often each was made, how often something befell a process before its next one,
// and which of these windows were never struck. aimed are the steps that faults wait for: those are named too
// after which no time has ever passed.
func (w *Windows) Print(out io.Writer, aimed []string) {
	steps := w.after()
	names := slices.SortedFunc(maps.Keys(steps), func(a, b string) int {
		return cmp.Or(steps[b][0]-steps[a][0], cmp.Compare(a, b))
	})
	var missed, unmade []string
	fmt.Fprintf(out, "%-44s %10s %10s\n", "window after", "passed", "struck")
	for _, name := range names {
		passed, struck := steps[name][0], steps[name][1]
		if struck == 0 {
			missed = append(missed, fmt.Sprintf("%q (%d)", cmp.Or(name, "(start)"), passed))
		}
		fmt.Fprintf(out, "%-44s %10d %10d\n", cmp.Or(name, "(start)"), passed, struck)
	}
	for _, step := range aimed {
		if _, made := steps[step]; !made {
			unmade = append(unmade, strconv.Quote(step))
		}
	}
	fmt.Fprintf(out, "never struck: %d of %d windows: %s\n", len(missed), len(names), strings.Join(missed, ", "))
	fmt.Fprintf(out, "never open, of those that faults wait for: %d: %s\n", len(unmade), strings.Join(unmade, ", "))
}
