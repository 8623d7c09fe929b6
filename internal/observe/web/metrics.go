package web

import (
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/observe/feed"
	"berth/supervisor"
)

// family is one metric: its description, and how it is read off what berth has said.
type family struct {
	name, kind, help string
	label            string                                            // beside lock and kind, "": none
	values           func(s *feed.Snapshot, say func(float64, string)) // say a value, and that of the label
	histogram        func(s *feed.Snapshot) feed.Histogram             // in place of values
}

// families are all metrics. docs/metrics.tsv is made of them: `make docs`.
var families = []family{
	{name: "berth_build_info", help: "Always 1; the label is the version of berth and Go's.", label: "version",
		kind: "gauge", values: func(s *feed.Snapshot, say func(float64, string)) {
			say(1, s.Version+" "+runtime.Version())
		}},
	{name: "berth_state", help: "1 for the state that berth is in, 0 for the others.", label: "state",
		kind: "gauge", values: func(s *feed.Snapshot, say func(float64, string)) {
			for _, state := range supervisor.States() {
				say(truth(s.State == string(state)), string(state))
			}
		}},
	gauge("berth_held", "1 while a slot is held.", func(s *feed.Snapshot) float64 { return truth(s.Slot != 0) }),
	gauge("berth_in_line", "1 while berth waits for a slot, and the broker has let it in.",
		func(s *feed.Snapshot) float64 { return truth(s.Slot == 0 && inLine(s)) }),
	gauge("berth_slot", "Number of the slot that is held, 0: none.",
		func(s *feed.Snapshot) float64 { return float64(s.Slot) }),
	gauge("berth_term", "Term of the slot that is held, 0: none.",
		func(s *feed.Snapshot) float64 { return float64(s.Term) }),
	gauge("berth_command_running", "1 while the command runs.",
		func(s *feed.Snapshot) float64 { return truth(s.CommandPID != 0) }),
	{name: "berth_healthy", help: "1 while the command, or with --health-while-waiting this host, is healthy, 0 while " +
		"it is not, or no check has succeeded yet. Missing while nothing is checked.",
		kind: "gauge", values: func(s *feed.Snapshot, say func(float64, string)) {
			if s.Health != "" {
				say(truth(s.Health == string(supervisor.Healthy)), "")
			}
		}},
	gauge("berth_waiting_seconds", "How long the present wait for a slot has lasted, 0 while one is held.",
		func(s *feed.Snapshot) float64 {
			if s.Slot != 0 || s.Since.IsZero() {
				return 0
			}
			return (s.At.Sub(s.Since) + time.Since(s.Heard)).Seconds()
		}),
	{name: "berth_deadline_seconds", help: "Time left until the command has to be dead, unless the slot is " +
		"verified before. Missing while there is no such time.",
		kind: "gauge", values: func(s *feed.Snapshot, say func(float64, string)) {
			if !s.Deadline.IsZero() {
				say((s.Deadline.Sub(s.At) - time.Since(s.Heard)).Seconds(), "")
			}
		}},
	gauge("berth_lease_seconds", "How long the broker certainly keeps a slot, 0: it is not lost by time.",
		func(s *feed.Snapshot) float64 { return s.Arithmetic.Lease }),
	gauge("berth_broker_alarm", "1 while the broker blocks this berth because of a memory or disk alarm; a holder is not told of it.",
		func(s *feed.Snapshot) float64 { return truth(s.Alarm != "") }),
	gauge("berth_silent_seconds", "Time since the loop that decides was last heard of; it reports once a second.",
		func(s *feed.Snapshot) float64 { return time.Since(s.Heard).Seconds() }),

	counter("berth_acquires_total", "Slots won.",
		func(s *feed.Snapshot) int { return s.Counts.Acquires }),
	counter("berth_starts_total", "Starts of the command.",
		func(s *feed.Snapshot) int { return s.Counts.Starts }),
	counter("berth_restarts_total", "Starts of the command in the slot in which it had run before.",
		func(s *feed.Snapshot) int { return s.Counts.Restarts }),
	counter("berth_verification_failures_total", "Verifications that proved nothing.",
		func(s *feed.Snapshot) int { return s.Counts.Failures }),
	counters("berth_losses_total", "cause", "Slots lost with a command in them, by cause: not_verified, deadline_passed or proven.",
		func(s *feed.Snapshot) map[string]int { return s.Counts.Losses }),
	counters("berth_health_checks_total", "result", "Health checks that were not broken off, by result: success, failure or unknown.",
		func(s *feed.Snapshot) map[string]int { return s.Counts.Checks }),
	counters("berth_cuts_total", "cause", "Commands ended because they were unhealthy or had run for too long, by cause: unhealthy or max_run.",
		func(s *feed.Snapshot) map[string]int { return s.Counts.Cuts }),
	counters("berth_kills_total", "step", "Signals of stop and loss sequences, by step, such as TERM.",
		func(s *feed.Snapshot) map[string]int { return s.Counts.Kills }),

	histogram("berth_verification_seconds", "How long verifications took.",
		func(s *feed.Snapshot) feed.Histogram { return s.Counts.Verification }),
	histogram("berth_start_seconds", "From winning a slot to the command's start, the handover included.",
		func(s *feed.Snapshot) feed.Histogram { return s.Counts.Start }),
	histogram("berth_waited_seconds", "How long the waits took that ended with a slot.",
		func(s *feed.Snapshot) feed.Histogram { return s.Counts.Waited }),
}

func inLine(s *feed.Snapshot) bool { return supervisor.State(s.State).InLine() }

func gauge(name, help string, value func(*feed.Snapshot) float64) family {
	return family{name: name, kind: "gauge", help: help,
		values: func(s *feed.Snapshot, say func(float64, string)) { say(value(s), "") }}
}

func counter(name, help string, value func(*feed.Snapshot) int) family {
	return family{name: name, kind: "counter", help: help,
		values: func(s *feed.Snapshot, say func(float64, string)) { say(float64(value(s)), "") }}
}

func counters(name, label, help string, values func(*feed.Snapshot) map[string]int) family {
	return family{name: name, kind: "counter", help: help, label: label,
		values: func(s *feed.Snapshot, say func(float64, string)) {
			all := values(s)
			for _, of := range slices.Sorted(maps.Keys(all)) {
				say(float64(all[of]), of)
			}
		}}
}

func histogram(name, help string, value func(*feed.Snapshot) feed.Histogram) family {
	return family{name: name, kind: "histogram", help: help, histogram: value}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// writeMetrics writes every metric, as berth has told it last, in the text format of
// prometheus.io/docs/instrumenting/exposition_formats. All have the labels kind and lock.
func writeMetrics(to io.Writer, s *feed.Snapshot) {
	common := fmt.Sprintf(`kind="%s",lock="%s"`, escaped.Replace(string(s.Kind)), escaped.Replace(s.Lock))
	sample := func(name, label, is string, value float64) {
		labels := common
		if label != "" {
			labels += fmt.Sprintf(`,%s="%s"`, label, escaped.Replace(is))
		}
		fmt.Fprintf(to, "%s{%s} %s\n", name, labels, number(value))
	}
	for _, f := range families {
		fmt.Fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		if f.histogram == nil {
			f.values(s, func(value float64, is string) { sample(f.name, f.label, is, value) })
			continue
		}
		h, all := f.histogram(s), uint64(0)
		for i, bound := range append(slices.Clone(h.Bounds), math.Inf(1)) {
			all += h.Counts[i]
			sample(f.name+"_bucket", "le", number(bound), float64(all))
		}
		sample(f.name+"_sum", "", "", h.Sum)
		sample(f.name+"_count", "", "", float64(all))
	}
}

// escaped escapes what must not be in a label's value.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// number writes a number as Prometheus reads it, +Inf included.
func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
