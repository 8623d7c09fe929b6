package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/prover/judge"
	"berth/prover/report"
)

// heads are of what fields returns.
var heads = []string{"run", "seed", "commands", "faults", "windows hit", "verdicts"}

// fields returns what there is to know of a cell.
func (c *cell) fields() []string {
	name, h := filepath.Base(c.name), c.report.History
	if !c.ended {
		return []string{name, "", "", "", "", "not run to its end"}
	}
	return []string{name, fmt.Sprint(c.report.Seed), fmt.Sprint(len(judge.Runs(h))), fmt.Sprint(len(h.Faults())),
		hit(c.report), c.verdicts()}
}

// verdicts is what checkers have found, and when the first one found out that a berth is broken.
func (c *cell) verdicts() string {
	var all []string
	first, by := int64(0), ""
	for _, v := range c.report.Verdicts {
		text := v.Checker + " " + string(v.Outcome)
		if n := len(v.Violations); n > 0 {
			text += fmt.Sprintf(" (%d)", n)
		}
		all = append(all, text)
		for _, violation := range v.Violations {
			if by == "" || violation.At < first {
				first, by = violation.At, v.Checker
			}
		}
	}
	switch text := strings.Join(all, ", "); {
	case c.broken == nil:
		return text
	case by == "":
		return "not found out: " + text
	default:
		return fmt.Sprintf("found out after %s by %s: %s", time.Duration(first).Round(100*time.Millisecond), by, text)
	}
}

// hit is how many windows faults have hit, and how many there are: one of a fault that strikes no client, three of others.
func hit(r report.Report) string {
	hits, all := 0, 0
	for name, phases := range r.Windows {
		windows := []judge.Phase{judge.Waiting, judge.Young, judge.Running}
		if !r.Targeted(name) {
			windows = []judge.Phase{judge.Other}
		}
		for _, phase := range windows {
			if all++; phases[phase] > 0 {
				hits++
			}
		}
	}
	return fmt.Sprintf("%d of %d", hits, all)
}

// print prints a cell in one line, and all that berth-prove has printed unless all is well.
func (c *cell) print(err error) {
	for i, field := range c.fields() {
		if i > 0 && field != "" {
			fmt.Printf(", %s ", heads[i])
		}
		fmt.Print(field)
	}
	fmt.Println()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else if c.status() != 0 {
		text, _ := os.ReadFile(c.name + ".txt")
		os.Stderr.Write(text)
	}
}

// page is a table of cells in Markdown.
func page(cells []*cell) string {
	row := func(fields []string) string { return "| " + strings.Join(fields, " | ") + " |\n" }
	text := row(heads) + row(strings.Fields("--- --- --- --- --- ---"))
	for _, c := range cells {
		text += row(c.fields())
	}
	return text
}
