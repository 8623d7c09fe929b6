package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"berth/prover/judge"
)

// shown is how many violations of one checker people are shown. JSON has all.
const shown = 20

// Text writes what a person reads in a terminal: a line for each checker with its violations, and where faults struck.
// Times are those of the history.
func Text(w io.Writer, r Report) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s\n%s\n\n", clean(withoutPasswords(r.Command)), r.facts())
	width := 0
	for _, v := range r.Verdicts {
		width = max(width, len(v.Checker))
	}
	for _, v := range r.Verdicts {
		writeVerdict(out, v, width)
	}
	writeWindows(out, r)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	return nil
}

func writeVerdict(out io.Writer, v judge.Verdict, width int) {
	fmt.Fprintf(out, "%-8s  %-*s", v.Outcome, width, v.Checker)
	if n := len(v.Violations); n > 0 {
		fmt.Fprintf(out, "  %s", count(n, "violation"))
	}
	if n := len(v.Limits); n > 0 {
		fmt.Fprintf(out, "  %s", count(n, "limit"))
	}
	if v.Note != "" {
		fmt.Fprintf(out, "  %s", clean(v.Note))
	}
	fmt.Fprintln(out)
	all := slices.Concat(v.Violations, v.Limits)
	for i, violation := range all {
		if i == shown {
			fmt.Fprintf(out, "    ... and %d more\n", len(all)-shown)
			break
		}
		fmt.Fprintf(out, "    %s  %s\n", when(violation), clean(violation.What))
	}
}

// when is from when on and for how long a promise was broken.
func when(v judge.Violation) string {
	if v.Until > v.At {
		return fmt.Sprintf("at %s for %s", seconds(v.At), seconds(v.Until-v.At))
	}
	return "at " + seconds(v.At)
}

func writeWindows(out io.Writer, r Report) {
	rows := r.windows()
	if len(rows) > 0 {
		width := len("fault")
		for _, row := range rows {
			width = max(width, len(row.Fault))
		}
		fmt.Fprintf(out, "\n%-*s", width, "fault")
		for _, phase := range phases {
			fmt.Fprintf(out, "  %7s", phase)
		}
		fmt.Fprintln(out)
		for _, row := range rows {
			fmt.Fprintf(out, "%-*s", width, row.Fault)
			for _, n := range row.Counts {
				fmt.Fprintf(out, "  %7s", n)
			}
			if row.Idle {
				fmt.Fprint(out, "  no verdict: it has struck nothing")
			}
			fmt.Fprintln(out)
		}
	}
	for i, text := range r.failed() {
		if i == 0 {
			fmt.Fprintln(out)
		}
		if i == shown {
			fmt.Fprintln(out, "...")
			break
		}
		fmt.Fprintln(out, text)
	}
	if caveat := r.caveat(); caveat != "" {
		fmt.Fprintf(out, "\n%s\n", caveat)
	}
}
