package faults

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// row is what came of one fault with so many contenders.
type row struct {
	fault      string
	contenders int
	runs       int
	kept       int             // runs in which the holder's command went on
	stuck      int             // runs in which nobody ran before a node that was back was started again
	overlaps   int             // pairs of commands that overlapped
	overlap    time.Duration   // added up
	next       []time.Duration // from the fault until the next command ran
}

// add counts a verdict; the fault was between the two moments.
func (r *row) add(v verdict, from, to int64) {
	r.count(v, from, to)
	r.overlaps += len(v.Overlaps)
	r.overlap += v.Overlapped()
}

// count is add without the overlaps, for one of many faults in one history.
func (r *row) count(v verdict, from, to int64) {
	r.runs++
	if command, found := next(v.Runs, from); found && command.At < to {
		r.next = append(r.next, time.Duration(command.At-from))
	} else {
		r.kept++
	}
}

// table is what the suite prints at its end.
type table []*row

func (t *table) row(fault string, contenders int) *row {
	r := &row{fault: fault, contenders: contenders}
	*t = append(*t, r)
	return r
}

// of returns the row of a fault, nil if it was not tried.
func (t table) of(fault string) *row {
	for _, r := range t {
		if r.fault == fault {
			return r
		}
	}
	return nil
}

func (t table) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "fault\tcontenders\truns\toverlap\tcommand kept\tnext command runs after: median\tmax")
	for _, r := range t {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d (%s)\t%d\t%s\t%s\n", r.fault, r.contenders, r.runs,
			r.overlaps, r.overlap.Round(time.Millisecond), r.kept, short3(median(r.next)), short3(longest(r.next)))
	}
}

func short3(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 100*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func longest(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all)
}
