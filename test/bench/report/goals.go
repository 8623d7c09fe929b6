package report

// Goal is what the sum of some medians may be at most, or has to be at least.
type Goal struct {
	What  string
	Sum   []Term
	Bound []Term
	Least bool
}

// Term is a factor of the median of a program in a measure, or, where Title is empty, a number.
type Term struct {
	Factor         float64
	Title, Program string
}

// number returns its value, and reports whether it was measured.
func (r *Report) number(section string, t Term) (float64, bool) {
	if t.Title == "" {
		return t.Factor, true
	}
	for _, m := range r.Measures {
		if one := m.find(t.Program); m.Section == section && m.Title == t.Title && one != nil && len(one.Samples) > 0 {
			return t.Factor * median(one.Samples), true
		}
	}
	return 0, false
}

func (r *Report) sum(section string, terms []Term) (sum float64, all bool) {
	for _, t := range terms {
		x, measured := r.number(section, t)
		if !measured {
			return 0, false
		}
		sum += x
	}
	return sum, true
}

// goals returns a table of those goals that a section has measured all of, "" if there are none.
func (r *Report) goals(section string) string {
	rows := [][]string{{"goal", "is", "bound", ""}}
	for _, g := range r.Goals {
		is, measured := r.sum(section, g.Sum)
		bound, known := r.sum(section, g.Bound)
		if !measured || !known {
			continue
		}
		within, verdict := "at most ", "missed"
		if g.Least {
			within = "at least "
		}
		if g.Least == (is >= bound) || is == bound {
			verdict = "met"
		}
		rows = append(rows, []string{g.What, number(is), within + number(bound), verdict})
	}
	if len(rows) == 1 {
		return ""
	}
	return "\n" + Align(rows, 1)
}
