package report

import (
	_ "embed"
	"html/template"
	"io"
	"slices"

	"berth/prover/judge"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// page escapes whatever it is given, by where it stands.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean": clean, "when": when, "count": count, "phases": func() []judge.Phase { return phases },
	"css": func() template.CSS { return template.CSS(pageCSS) },
	"js":  func() template.JS { return template.JS(pageJS) },
}).Parse(pageHTML))

// writePage writes a report as one page of HTML.
func writePage(w io.Writer, r Report) error {
	return page.Execute(w, struct {
		Command, Facts, Caveat string
		Tallies                []tally
		Verdicts               []verdict
		Windows                []window
		Chart                  chart
	}{clean(r.Command), r.facts(), r.caveat(), r.tallies(), r.verdicts(), r.windows(), draw(r)})
}

// tally is how many checkers have found the same.
type tally struct {
	Outcome judge.Outcome
	N       int
}

// tallies returns those that there are, the worst first.
func (r Report) tallies() (all []tally) {
	n := map[judge.Outcome]int{}
	for _, v := range r.Verdicts {
		n[v.Outcome]++
	}
	for _, outcome := range []judge.Outcome{judge.Violated, judge.Unknown, judge.Kept} {
		if n[outcome] > 0 {
			all = append(all, tally{outcome, n[outcome]})
		}
	}
	return all
}

// verdict is what the page shows of one: as many violations as people read.
type verdict struct {
	judge.Verdict
	Shown []moment
	More  int
}

// moment is where the chart shows a violation, in microseconds from its start.
type moment struct {
	judge.Violation
	Start, End int64
}

func (r Report) verdicts() []verdict {
	from, _ := r.bounds()
	var verdicts []verdict
	for _, v := range r.Verdicts {
		all := slices.Concat(v.Violations, v.Limits)
		one := verdict{Verdict: v, More: max(0, len(all)-shown)}
		for _, violation := range all[:len(all)-one.More] {
			one.Shown = append(one.Shown,
				moment{violation, violation.At/1000 - from/1000, max(violation.At, violation.Until)/1000 - from/1000})
		}
		verdicts = append(verdicts, one)
	}
	return verdicts
}
