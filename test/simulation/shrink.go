package simulation

import (
	"slices"
	"time"
)

// Shrink returns the smallest plan that it finds which still fails, given one that does: fewer contenders, fewer and
// shorter faults, nothing that is not needed. fails simulates a plan.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	for {
		smaller, found := smallerThan(p, fails)
		if !found {
			return p
		}
		p = smaller
	}
}

// smallerThan returns the first plan that is a little smaller and fails.
func smallerThan(p Plan, fails func(Plan) bool) (Plan, bool) {
	for _, try := range shrunk(p) {
		if fails(try) {
			return try, true
		}
	}
	return p, false
}

// shrunk returns plans that are a little smaller, the smallest first.
func shrunk(p Plan) (all []Plan) {
	add := func(change func(*Plan)) {
		try := p
		try.Contenders, try.Faults = slices.Clone(p.Contenders), slices.Clone(p.Faults)
		change(&try)
		all = append(all, try)
	}
	for n := len(p.Faults) / 2; n > 0; n /= 2 {
		for from := 0; from+n <= len(p.Faults); from += n {
			add(func(p *Plan) { p.Faults = slices.Delete(p.Faults, from, from+n) })
		}
	}
	for n := len(p.Contenders) / 2; n > 0; n /= 2 {
		for from := 0; from+n <= len(p.Contenders); from += n {
			add(func(p *Plan) { p.without(from, n) })
		}
	}
	for i, f := range p.Faults {
		if f.Step != "" {
			add(func(p *Plan) { p.Faults[i].Step, p.Faults[i].Nth = "", 0 })
		}
		if f.Late > 0 {
			add(func(p *Plan) { p.Faults[i].Late = 0 })
		}
		if f.For > 2*time.Second {
			add(func(p *Plan) { p.Faults[i].For = f.For / 2 })
		}
		if f.Nth > 1 {
			add(func(p *Plan) { p.Faults[i].Nth = 1 })
		}
	}
	for i, c := range p.Contenders {
		if c.Stubborn || c.Priority != 0 || c.Restart != "never" {
			add(func(p *Plan) {
				p.Contenders[i].Stubborn, p.Contenders[i].Priority, p.Contenders[i].Restart = false, 0, "never"
			})
		}
	}
	return all
}

// without takes contenders out of a plan. What would befall them befalls the first one.
func (p *Plan) without(from, n int) {
	p.Contenders = slices.Delete(p.Contenders, from, from+n)
	for i := range p.Faults {
		switch f := &p.Faults[i]; {
		case f.Host >= from+n:
			f.Host -= n
		case f.Host >= from:
			f.Host = 0
		}
	}
}
