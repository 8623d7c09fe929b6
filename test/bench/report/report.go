// Package report turns what was measured into tables, a plot and JSON, and puts the
// tables into a page.
//
// It knows numbers and pages. It must not know how anything is measured.
package report

import (
	"context"
	"slices"
)

// Report is everything that one run has found out. The zero value is empty.
type Report struct {
	Date     string   `json:"date"`     // of the run's beginning, in UTC
	Commit   string   `json:"commit"`   // of the tree, marked if there are changes in it
	Flags    string   `json:"flags"`    // that say how much was measured
	Made     string   `json:"-"`        // the command that makes the page. Zero: make bench
	Machine  string   `json:"machine"`  // cores, memory, system
	Load     float64  `json:"load"`     // mean of the minute before the run
	Busy     float64  `json:"busy"`     // largest share of processor time in use before a scenario, 0 to 1
	Stolen   float64  `json:"stolen"`   // share of processor time that the hypervisor took during the run, 0 to 1
	Others   float64  `json:"others"`   // share of processor time that others took during the run; 0: not known
	Versions []string `json:"versions"` // of the programs and brokers that were measured

	Measures []*Measure `json:"measures"` // in the order in which they were added
	Goals    []Goal     `json:"-"`        // of sections that measure what they are about
}

// Measure is one thing that was measured, of one program or of several. Section and
// Title name it.
type Measure struct {
	Section string    `json:"section"` // of the page
	Title   string    `json:"title"`
	Unit    string    `json:"unit"`
	More    bool      `json:"moreIsBetter"`
	Plot    bool      `json:"-"` // draw it, too
	Alone   bool      `json:"-"` // do not compare programs
	Count   bool      `json:"-"` // exact numbers: write them whole
	Spread  bool      `json:"-"` // write the quartiles, too
	Results []*Result `json:"results"`
}

// Result is what was measured of one program.
type Result struct {
	Program string    `json:"program"`
	Samples []float64 `json:"samples"`
	Text    string    `json:"text,omitempty"` // stands in the place of a median where there is none
}

// Of returns the result of a program, made if there is none.
func (m *Measure) Of(program string) *Result {
	if r := m.find(program); r != nil {
		return r
	}
	r := &Result{Program: program, Samples: []float64{}}
	m.Results = append(m.Results, r)
	return r
}

// find returns the result of a program, nil if there is none.
func (m *Measure) find(program string) *Result {
	i := slices.IndexFunc(m.Results, func(r *Result) bool { return r.Program == program })
	if i < 0 {
		return nil
	}
	return m.Results[i]
}

// Add adds samples of a program.
func (m *Measure) Add(program string, samples ...float64) {
	r := m.Of(program)
	r.Samples = append(r.Samples, samples...)
}

// Sections returns the names of the sections that have measures, in order.
func (r *Report) Sections() []string {
	var names []string
	for _, m := range r.Measures {
		if !slices.Contains(names, m.Section) {
			names = append(names, m.Section)
		}
	}
	return names
}

// section returns the measures of a section, and the programs that they have
// results of, in the order in which these first appear.
func (r *Report) section(name string) (measures []*Measure, programs []string) {
	for _, m := range r.Measures {
		if m.Section != name {
			continue
		}
		measures = append(measures, m)
		for _, one := range m.Results {
			if !slices.Contains(programs, one.Program) {
				programs = append(programs, one.Program)
			}
		}
	}
	return measures, programs
}

// Scenario is something that can be measured by itself, by an L, which has what all
// its scenarios need.
type Scenario[L any] struct {
	Name    string
	Section string // of the report that its measures belong to
	Measure func(L, context.Context) ([]*Measure, error)
}
