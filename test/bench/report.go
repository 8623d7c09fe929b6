package main

import (
	"math"
	"slices"
	"strconv"
)

// report is everything that one run has found out.
type report struct {
	Date       string     `json:"date"`
	Flags      string     `json:"flags"`
	Machine    machine    `json:"machine"`
	Contenders []program  `json:"contenders"` // the first is what the others are compared with
	Measures   []*measure `json:"measures"`
}

// program is a contender as the report knows it.
type program struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// measure is one thing that was measured of every contender.
type measure struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	Unit    string    `json:"unit"`
	More    bool      `json:"moreIsBetter"`
	Plot    bool      `json:"-"`
	Results []*result `json:"results"`
}

// result is what was measured of one contender.
type result struct {
	Contender string    `json:"contender"`
	Samples   []float64 `json:"samples"`
	// Text stands in the place of a median where there is none.
	Text string `json:"text,omitempty"`
}

// of returns the result of a contender, made if there is none.
func (m *measure) of(contender string) *result {
	if r := m.find(contender); r != nil {
		return r
	}
	r := &result{Contender: contender, Samples: []float64{}}
	m.Results = append(m.Results, r)
	return r
}

// find returns the result of a contender, nil if there is none.
func (m *measure) find(contender string) *result {
	for _, r := range m.Results {
		if r.Contender == contender {
			return r
		}
	}
	return nil
}

// add adds a sample.
func (m *measure) add(contender string, sample float64) {
	r := m.of(contender)
	r.Samples = append(r.Samples, sample)
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

// number writes x with three digits that mean something.
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

// cell writes a result for a table: the median, and how many times that of base
// it is, which is nil for base itself.
func cell(r, base *result) string {
	switch {
	case r == nil:
		return ""
	case r.Text != "":
		return r.Text
	case len(r.Samples) == 0:
		return ""
	}
	x := median(r.Samples)
	if x == 0 || base == nil || base.Text != "" || len(base.Samples) == 0 || median(base.Samples) == 0 {
		return number(x)
	}
	return number(x) + " (" + ratio(x/median(base.Samples)) + ")"
}
