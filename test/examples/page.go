package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/test/bench/measure"
)

// rows of the table: what of a verdict is in each.
var rows = []struct {
	title string
	cell  func(v verdict) string
}{
	{"messages lost", func(v verdict) string { return fmt.Sprint(v.lost) }},
	{"handovers with two consumers at work at once", func(v verdict) string { return v.get(handover).together() }},
	{"kills with two at work at once", func(v verdict) string { return v.get(kill).together() }},
	{"partitions with two at work at once", func(v verdict) string { return v.get(partition).together() }},
	{"messages that two handled in the same moment", func(v verdict) string {
		return fmt.Sprint(v.get(handover).twice + v.get(kill).twice + v.get(partition).twice)
	}},
	{"messages begun again: after handovers, kills, partitions", func(v verdict) string {
		return fmt.Sprintf("%d, %d, %d", v.get(handover).again, v.get(kill).again, v.get(partition).again)
	}},
	{"messages out of order within one consumer", func(v verdict) string { return fmt.Sprint(v.disorder) }},
	{"messages begun after a later one, by whomever", func(v verdict) string { return fmt.Sprint(v.late) }},
	{"pause at a handover: median, longest", func(v verdict) string { return v.get(handover).pause() }},
	{"from a kill to the next message", func(v verdict) string { return v.get(kill).pause() }},
	{"from a partition to the next message", func(v verdict) string { return v.get(partition).pause() }},
}

func (v verdict) get(kind string) outcome {
	if o := v.of[kind]; o != nil {
		return *o
	}
	return outcome{}
}

func (o outcome) together() string {
	if o.both == 0 {
		return fmt.Sprintf("0 of %d", o.events)
	}
	return fmt.Sprintf("%d of %d, for up to %s", o.both, o.events, round(o.longest))
}

func (o outcome) pause() string {
	if len(o.pauses) == 0 {
		return "not tried"
	}
	sorted := slices.Sorted(slices.Values(o.pauses))
	return fmt.Sprintf("%s, %s", round(sorted[len(sorted)/2]), round(sorted[len(sorted)-1]))
}

func round(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// wrong says what berth has not kept.
func (v verdict) wrong() (err error) {
	for what, n := range map[string]int{
		"messages are lost":                                  v.lost,
		"messages were out of order":                         v.disorder + v.late,
		"consumers began that no event explains":             v.strangers,
		"handovers had two consumers at work":                v.get(handover).both,
		"kills had two consumers at work":                    v.get(kill).both,
		"partitions had two consumers at work":               v.get(partition).both,
		"messages were handled again after a clean handover": v.get(handover).again,
	} {
		if n > 0 {
			err = errors.Join(err, fmt.Errorf("under berth %d %s", n, what))
		}
	}
	return err
}

// table returns what goes onto the page; used is the share of the machine's processor
// time that was in use meanwhile, by whomever.
func table(version, commit string, size sizes, used float64, verdicts []verdict) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d messages, %d in a second, to each, while it is handed over %d times, killed %d times and cut "+
		"off %d times.\nRabbitMQ %s, heartbeats of 2 s; commit %s, %s;\n%.0f %% of the processor time in use.\n\n",
		size.messages, size.rate, size.handovers, size.kills, size.partitions, version,
		commit, measure.Machine(), 100*used)
	s.WriteString("| |")
	for _, scheme := range schemes {
		fmt.Fprintf(&s, " %s |", scheme.title)
	}
	s.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(schemes)) + "\n")
	for _, row := range rows {
		fmt.Fprintf(&s, "| %s |", row.title)
		for _, v := range verdicts {
			fmt.Fprintf(&s, " %s |", row.cell(v))
		}
		s.WriteString("\n")
	}
	return s.String()
}
