package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table returns all medians of a section: a row of headings, then one for each
// measure.
func (r *Report) table(section string) [][]string {
	measures, programs := r.section(section)
	rows := [][]string{append([]string{"measure", "unit"}, programs...)}
	for _, m := range measures {
		unit := m.Unit
		if m.More {
			unit += " (more is better)"
		}
		row := []string{m.Title, unit}
		for i, program := range programs {
			var base *Result
			if i > 0 && !m.Alone {
				base = m.find(programs[0])
			}
			row = append(row, m.cell(m.find(program), base))
		}
		rows = append(rows, row)
	}
	return rows
}

// Text returns all sections.
func (r *Report) Text() string {
	var s strings.Builder
	for _, section := range r.Sections() {
		fmt.Fprintf(&s, "\n%s\n\n%s", section, r.text(section, ""))
	}
	return s.String()
}

// text returns a section's table and what has to be known about it; plot is
// where the plot is, "" for none.
func (r *Report) text(section, plot string) string {
	var s strings.Builder
	run := cmp.Or(r.Made, "make bench")
	if r.Flags != "" {
		run += fmt.Sprintf(" BENCH=%q", r.Flags)
	}
	fmt.Fprintf(&s, "Commit %s on %s, %s.\nLoad before it began: %s; processor time in use before a scenario: "+
		"at most %.0f %%; taken by the hypervisor: %.1f %%.\n",
		r.Commit, r.Date, r.Machine, number(r.Load), 100*r.Busy, 100*r.Stolen)
	if r.Others > 0 {
		fmt.Fprintf(&s, "Taken by other processes during the run: %.0f %% of the processor time.\n", 100*r.Others)
	}
	fmt.Fprintf(&s, "Made by `%s`.\n\n", run)
	s.WriteString(Align(r.table(section), 2))
	s.WriteString("\nMedians")
	measures, programs := r.section(section)
	if slices.ContainsFunc(measures, func(m *Measure) bool { return m.Spread }) {
		s.WriteString("; in brackets, the quartiles")
	}
	if len(programs) > 1 && slices.ContainsFunc(measures, func(m *Measure) bool { return !m.Alone }) {
		fmt.Fprintf(&s, "; in brackets, how many times that of %s it is", programs[0])
	}
	fmt.Fprintf(&s, ". Versions: %s.\n", strings.Join(r.Versions, ";\n"))
	s.WriteString(r.goals(section))
	if plot != "" {
		fmt.Fprintf(&s, "The same as a plot, with lines from the least to the most, on logarithmic axes: %s\n", plot)
	}
	return s.String()
}

// Align returns rows, one a line, with each cell as wide as its column: the first columns, which are words, from the
// left, others from the right.
func Align(rows [][]string, words int) string {
	var s strings.Builder
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			if i >= words {
				cell = fmt.Sprintf("%*s", widths[i], cell)
			}
			line += fmt.Sprintf("  %-*s", widths[i], cell)
		}
		s.WriteString(strings.TrimRight(line[2:], " ") + "\n")
	}
	return s.String()
}

// cell writes a result for a table: the median, and how many times that of base
// it is, which is nil for base itself.
func (m *Measure) cell(r, base *Result) string {
	switch {
	case r == nil:
		return ""
	case r.Text != "":
		return r.Text
	case len(r.Samples) == 0:
		return ""
	}
	x := median(r.Samples)
	if m.Count {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	if m.Spread {
		return fmt.Sprintf("%s (%s to %s)", number(x), number(quantile(r.Samples, 0.25)), number(quantile(r.Samples, 0.75)))
	}
	if x == 0 || base == nil || base.Text != "" || len(base.Samples) == 0 || median(base.Samples) == 0 {
		return number(x)
	}
	return number(x) + " (" + ratio(x/median(base.Samples)) + ")"
}

// median returns the middle one of all samples, of two in the middle their mean;
// NaN without any.
func median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// quantile returns the sample of which that share of all samples, 0 to 1, is less.
func quantile(samples []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(math.Round(share*float64(len(sorted)-1)))]
}

// number writes x with three significant digits.
func number(x float64) string { return digits(x, 3) }

// ratio writes how many times something is of something else.
func ratio(x float64) string { return digits(x, 2) + "x" }

// digits writes x with n digits, more if it has more before the point.
func digits(x float64, n int) string {
	if x == 0 {
		return "0"
	}
	// Rounded first: 9.99 has one digit before the point, 9.999 has two.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', n-1, 64), 64)
	before := int(math.Floor(math.Log10(math.Abs(rounded)))) + 1
	return strconv.FormatFloat(x, 'f', max(0, n-before), 64)
}
