// Package scale measures how many contenders a broker carries: what each of thousands
// of waiters and locks costs, and how soon a waiter is woken.
//
// Contenders are those of package lock, all in this process, with the connections
// that a berth has. A berth that waits is a process and a guard on top of that.
//
// It knows the contract of a lock and its backend for RabbitMQ, and must not know
// the command line.
package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/bench/measure"
	"berth/test/bench/report"
	"berth/test/brokertest"
)

// Sizes say how much there is of everything. All of them are 1 or more.
type Sizes struct {
	Waiters   int           // that wait for one mutex
	Handovers int           // how often it goes to the next of them; at most Waiters
	Locks     int           // mutexes with one holder and one waiter each
	Settle    time.Duration // how long waiters are left alone before anything is measured of them
	Idle      time.Duration // for which processor time of waiters is counted
}

// Bench measures. The zero value is not usable: see Open.
type Bench struct {
	sizes   Sizes
	say     func(format string, args ...any) // reports progress
	version string                           // of the brokers that were measured
}

// Scenarios are what Bench measures, each on a broker of its own.
var Scenarios = []report.Scenario[*Bench]{
	{Name: "waiters", Section: "scale", Measure: onBroker(measureWaiters)},
	{Name: "locks", Section: "scale", Measure: onBroker(measureLocks)},
}

// Open permits this process, and the brokers that it starts, to have as many
// descriptors open as scenarios of those sizes need.
func Open(sizes Sizes, say func(format string, args ...any)) (*Bench, error) {
	const rest = 500                                   // files, databases, listeners, and what is just closing
	needed := max(sizes.Waiters, 2*sizes.Locks) + rest // a contender has one connection
	return &Bench{sizes: sizes, say: say}, raiseDescriptors(uint64(needed))
}

func raiseDescriptors(needed uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot read the limit of descriptors: %w", err)
	}
	permitted := limit.Max
	limit.Cur = max(limit.Cur, min(needed, permitted))
	if needed > permitted {
		limit.Cur, limit.Max = needed, needed // root may
	}
	// Also where nothing changes: Go gives children the limit that it found at
	// its own start, unless the program has set one.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d descriptors are needed and %d permitted (%w); run `ulimit -n %d` as root first, "+
			"or choose smaller -waiters and -locks", needed, permitted, err, needed)
	}
	return nil
}

// Versions returns what was measured.
func (b *Bench) Versions() []string { return []string{b.version} }

// Close does nothing: every scenario has ended what it began.
func (b *Bench) Close() error { return nil }

// scene is one scenario.
type scene struct {
	*Bench
	broker   *brokertest.Broker
	pid      int // of the broker's Erlang machine
	locks    lock.Backend
	measures []*report.Measure
}

// onBroker has a scenario measured on a broker of its own.
func onBroker(f func(context.Context, *scene) error) func(*Bench, context.Context) ([]*report.Measure, error) {
	return func(b *Bench, ctx context.Context) ([]*report.Measure, error) {
		broker, err := brokertest.Start(ctx)
		if err != nil {
			return nil, err
		}
		s := &scene{Bench: b, broker: broker}
		if err = s.open(ctx); err == nil {
			err = f(ctx, s)
		}
		return s.measures, errors.Join(err, broker.Stop())
	}
}

func (s *scene) open(ctx context.Context) (err error) {
	s.version = "RabbitMQ " + s.broker.Version()
	if s.locks, err = rabbit.New(rabbit.Config{URLs: []string{s.broker.URL()}}); err != nil {
		return err
	}
	s.pid, err = s.broker.PID(ctx)
	return err
}

// add puts a figure into the report: the median of some samples.
func (s *scene) add(title, unit string, samples ...float64) *report.Result {
	m := &report.Measure{Title: title, Unit: unit}
	m.Add("berth", samples...)
	s.measures = append(s.measures, m)
	return m.Of("berth")
}

// count puts a number into the report that is exact.
func (s *scene) count(title string, n int) { s.add(title, "", float64(n)).Text = strconv.Itoa(n) }

// addTimes puts the median of some durations into the report, in milliseconds.
func (s *scene) addTimes(title string, times []time.Duration) {
	var samples []float64
	for _, t := range times {
		samples = append(samples, measure.Milliseconds(t))
	}
	s.add(title, "ms", samples...)
}

// snapshot is what both sides have taken at one moment.
type snapshot struct {
	when         time.Time
	here, broker measure.Usage
}

// snap looks at both sides. Before that it has this process give back what it does
// not need.
func (s *scene) snap() (shot snapshot, err error) {
	debug.FreeOSMemory() // collects garbage, too
	shot.when = time.Now()
	if shot.here, err = measure.UsageOf(os.Getpid()); err == nil {
		shot.broker, err = measure.UsageOf(s.pid)
	}
	return shot, err
}

// addMemory reports what each of n has added to both sides since before, once they
// were left alone for a while.
func (s *scene) addMemory(ctx context.Context, what string, n int, before snapshot) error {
	s.say("letting everybody settle for %s", s.sizes.Settle)
	if err := measure.Sleep(ctx, s.sizes.Settle); err != nil {
		return err
	}
	after, err := s.snap()
	if err != nil {
		return err
	}
	s.add("Memory of "+what, "KiB", float64(after.here.RSS-before.here.RSS)/float64(n)/1024)
	s.add("... in the broker", "KiB", float64(after.broker.RSS-before.broker.RSS)/float64(n)/1024)
	return nil
}
