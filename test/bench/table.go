package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table returns all medians: a row of headings, then one for each measure.
func (r *report) table() [][]string {
	head := []string{"measure", "unit", "better"}
	for _, p := range r.Contenders {
		head = append(head, p.Name)
	}
	rows := [][]string{head}
	for _, m := range r.Measures {
		better := "less"
		if m.More {
			better = "more"
		}
		row := []string{m.Title, m.Unit, better}
		for i, p := range r.Contenders {
			var base *result
			if i > 0 {
				base = m.find(r.Contenders[0].Name)
			}
			row = append(row, cell(m.find(p.Name), base))
		}
		rows = append(rows, row)
	}
	return rows
}

// text returns the table for a terminal.
func (r *report) text() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	for _, row := range r.table() {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // to a string: it cannot fail
	return s.String()
}

// markdown returns the table and what has to be known about it; plot is where the
// plot is, "" for none.
func (r *report) markdown(plot string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Measured on %s on %s.\nMade by `%s`.\n\n", r.Date, r.Machine, strings.TrimSpace("make bench "+r.flagsForMake()))
	for i, row := range r.table() {
		for j := range row {
			row[j] = strings.ReplaceAll(row[j], "|", `\|`)
		}
		fmt.Fprintf(&s, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&s, "| --- | --- | --- |%s\n", strings.Repeat(" ---: |", len(row)-3))
		}
	}
	fmt.Fprintf(&s, "\nMedians; in brackets, how many times that of %s it is. Versions: ", r.Contenders[0].Name)
	var versions []string
	for _, p := range r.Contenders {
		if p.Version != "" {
			versions = append(versions, p.Name+" "+p.Version)
		}
	}
	fmt.Fprintf(&s, "%s.\n", strings.Join(versions, "; "))
	if plot != "" {
		fmt.Fprintf(&s, "\n![The same as a plot: a dot for the median, a line from the least to the most, on logarithmic axes](%s)\n", plot)
	}
	return s.String()
}

// flagsForMake returns how make is told of the flags.
func (r *report) flagsForMake() string {
	if r.Flags == "" {
		return ""
	}
	return fmt.Sprintf("BENCH=%q", r.Flags)
}
