package web

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"berth/internal/observe/feed"
	"berth/supervisor"
)

// family is one metric: its description, and how it is read off what berth has said.
type family struct {
	name, help string
	kind       prometheus.ValueType
	label      string                                            // beside lock and kind, "": none
	values     func(s *feed.Snapshot, say func(float64, string)) // say a value, and that of the label
	histogram  func(s *feed.Snapshot) feed.Histogram             // in place of values
}

// families are all metrics, as docs/metrics.md describes them.
var families = []family{
	{name: "berth_build_info", help: "Always 1; the label is the version of berth.", label: "version",
		kind: prometheus.GaugeValue, values: func(s *feed.Snapshot, say func(float64, string)) {
			say(1, s.Version+" "+runtime.Version())
		}},
	{name: "berth_state", help: "1 for the state that berth is in, 0 for the others.", label: "state",
		kind: prometheus.GaugeValue, values: func(s *feed.Snapshot, say func(float64, string)) {
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
		kind: prometheus.GaugeValue, values: func(s *feed.Snapshot, say func(float64, string)) {
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
		kind: prometheus.GaugeValue, values: func(s *feed.Snapshot, say func(float64, string)) {
			if !s.Deadline.IsZero() {
				say((s.Deadline.Sub(s.At) - time.Since(s.Heard)).Seconds(), "")
			}
		}},
	gauge("berth_lease_seconds", "How long the broker certainly keeps a slot, 0: it is not lost by time.",
		func(s *feed.Snapshot) float64 { return s.Arithmetic.Lease }),
	gauge("berth_broker_alarm", "1 while the broker blocks this berth because of a memory or disk alarm.",
		func(s *feed.Snapshot) float64 { return truth(s.Alarm != "") }),
	gauge("berth_silent_seconds", "Time since the loop that decides was last heard of; it reports once a second.",
		func(s *feed.Snapshot) float64 { return time.Since(s.Heard).Seconds() }),

	counter("berth_acquires_total", "Slots won.",
		func(s *feed.Snapshot) float64 { return float64(s.Counts.Acquires) }),
	counter("berth_starts_total", "Starts of the command.",
		func(s *feed.Snapshot) float64 { return float64(s.Counts.Starts) }),
	counter("berth_restarts_total", "Starts of the command in the slot in which it had run before.",
		func(s *feed.Snapshot) float64 { return float64(s.Counts.Restarts) }),
	counter("berth_verification_failures_total", "Verifications that proved nothing.",
		func(s *feed.Snapshot) float64 { return float64(s.Counts.Failures) }),
	{name: "berth_losses_total", help: "Slots lost with a command in them, by cause.", label: "cause",
		kind: prometheus.CounterValue, values: func(s *feed.Snapshot, say func(float64, string)) {
			for cause, n := range s.Counts.Losses {
				say(float64(n), cause)
			}
		}},
	{name: "berth_health_checks_total", help: "Health checks that were not broken off, by result.", label: "result",
		kind: prometheus.CounterValue, values: func(s *feed.Snapshot, say func(float64, string)) {
			for result, n := range s.Counts.Checks {
				say(float64(n), result)
			}
		}},
	{name: "berth_cuts_total", help: "Commands ended because they were unhealthy or had run for too long, by cause.",
		label: "cause", kind: prometheus.CounterValue, values: func(s *feed.Snapshot, say func(float64, string)) {
			for cause, n := range s.Counts.Cuts {
				say(float64(n), cause)
			}
		}},
	{name: "berth_kills_total", help: "Signals of stop and loss sequences, by signal.", label: "step",
		kind: prometheus.CounterValue, values: func(s *feed.Snapshot, say func(float64, string)) {
			for step, n := range s.Counts.Kills {
				say(float64(n), step)
			}
		}},

	{name: "berth_verification_seconds", help: "How long verifications took.",
		histogram: func(s *feed.Snapshot) feed.Histogram { return s.Counts.Verification }},
	{name: "berth_start_seconds", help: "From winning a slot to the command's start, the handover included.",
		histogram: func(s *feed.Snapshot) feed.Histogram { return s.Counts.Start }},
	{name: "berth_waited_seconds", help: "How long the waits took that ended with a slot.",
		histogram: func(s *feed.Snapshot) feed.Histogram { return s.Counts.Waited }},
}

func inLine(s *feed.Snapshot) bool { return supervisor.State(s.State).InLine() }

func gauge(name, help string, value func(*feed.Snapshot) float64) family {
	return single(prometheus.GaugeValue, name, help, value)
}

func counter(name, help string, value func(*feed.Snapshot) float64) family {
	return single(prometheus.CounterValue, name, help, value)
}

func single(kind prometheus.ValueType, name, help string, value func(*feed.Snapshot) float64) family {
	return family{name: name, help: help, kind: kind,
		values: func(s *feed.Snapshot, say func(float64, string)) { say(value(s), "") }}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// desc describes the metric. All have the labels lock and kind.
func (f family) desc() *prometheus.Desc {
	labels := []string{"lock", "kind"}
	if f.label != "" {
		labels = append(labels, f.label)
	}
	return prometheus.NewDesc(f.name, f.help, labels, nil)
}

// collector reads every metric off what berth has said last.
type collector struct{ latest func() *feed.Snapshot }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		to <- f.desc()
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c.latest()
	if s == nil {
		return
	}
	for _, f := range families {
		desc, labels := f.desc(), []string{s.Lock, string(s.Kind)}
		if f.histogram != nil {
			h := f.histogram(s)
			count, buckets := cumulated(h)
			to <- prometheus.MustNewConstHistogram(desc, count, h.Sum, buckets, labels...)
			continue
		}
		f.values(s, func(value float64, label string) {
			all := labels
			if f.label != "" {
				all = append(labels[:2:2], label)
			}
			to <- prometheus.MustNewConstMetric(desc, f.kind, value, all...)
		})
	}
}

// cumulated returns a histogram as Prometheus counts.
func cumulated(h feed.Histogram) (all uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64)
	for i, n := range h.Counts {
		all += n
		if i < len(h.Bounds) {
			buckets[h.Bounds[i]] = all
		}
	}
	return all, buckets
}
