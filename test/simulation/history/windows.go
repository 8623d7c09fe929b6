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
	passed, hit map[Window]int
	at          map[string]string        // by process: its last step
	since       map[string]time.Duration // by process: when that was
	struck      map[string][]string      // by process: what has befallen it since
}

// Step is for a process that does something, or learns of something.
//
// A window that takes no time is none: what a process writes in one go is struck as a whole.
func (w *Windows) Step(now time.Duration, process, step string) {
	if w.passed == nil {
		w.passed, w.hit = map[Window]int{}, map[Window]int{}
		w.at, w.struck, w.since = map[string]string{}, map[string][]string{}, map[string]time.Duration{}
	}
	window := Window{w.at[process], step}
	if now > w.since[process] {
		w.passed[window]++
		w.hit[window] += len(w.struck[process])
	}
	w.at[process], w.since[process] = step, now
	delete(w.struck, process)
}

// Strike is for a fault that befalls a process. One that never does anything again is counted in the window that it was
// in, whose end is not known.
func (w *Windows) Strike(process, fault string, last bool) {
	if w.struck == nil {
		return
	}
	if last {
		w.hit[Window{w.at[process], "(nothing more)"}]++
		return
	}
	w.struck[process] = append(w.struck[process], fault)
}

// Add adds what another one has counted.
func (w *Windows) Add(other *Windows) {
	if w.passed == nil {
		w.passed, w.hit = map[Window]int{}, map[Window]int{}
	}
	for window, n := range other.passed {
		w.passed[window] += n
	}
	for window, n := range other.hit {
		w.hit[window] += n
	}
}

// after returns how often a fault came after a step, before any other.
func (w *Windows) after() map[string][2]int {
	steps := map[string][2]int{}
	for window, n := range w.passed {
		of := steps[window.After]
		of[0] += n
		steps[window.After] = of
	}
	for window, n := range w.hit {
		of := steps[window.After]
		of[1] += n
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
