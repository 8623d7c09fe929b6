package main

import (
	"strings"
	"sync"

	"berth/test/bench/report"
)

// probeSection is the part of the page that is not about schemes.
const probeSection = "probes"

// book collects measures. Its methods may be called from several goroutines. The zero value
// is empty.
type book struct {
	mu       sync.Mutex
	measures []*report.Measure // guarded by mu
}

// add adds samples of a program to a measure, which is made if there is none.
func (k *book) add(section, title, unit string, plot bool, program string, samples ...float64) {
	spread := strings.HasSuffix(section, "-time") || section == probeSection && unit == "ms"
	k.put(report.Measure{
		Section: section, Title: title, Unit: unit, Plot: plot, Alone: true, Spread: spread,
	}, program, samples)
}

// count adds an exact number.
func (k *book) count(section, title, program string, n float64) {
	k.put(report.Measure{Section: section, Title: title, Alone: true, Count: true}, program, []float64{n})
}

func (k *book) put(m report.Measure, program string, samples []float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.find(m).Add(program, samples...)
}

// find returns the measure of that section and title. The caller has mu.
func (k *book) find(wanted report.Measure) *report.Measure {
	for _, m := range k.measures {
		if m.Section == wanted.Section && m.Title == wanted.Title {
			return m
		}
	}
	if wanted.Section != probeSection { // in their order, whichever comes first
		for _, s := range schemes {
			wanted.Of(s.name)
		}
	}
	k.measures = append(k.measures, &wanted)
	return &wanted
}
