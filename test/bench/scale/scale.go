// Package scale measures how many contenders a lock and its broker carry: what each
// of thousands of waiters costs, how soon one is woken, how long the search among a
// thousand slots takes, and whether those that compete get equal shares.
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
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// patience bounds every single step. The slowest that works is a waiter whose
// baton was lost: it looks by itself every minute or two.
const patience = 3 * time.Minute

// atOnce is how many contenders connect or leave at the same time.
const atOnce = 16

// Sizes say how much there is of everything. All of them are 1 or more.
type Sizes struct {
	Waiters    int           // that wait for one mutex
	Handovers  int           // how often it goes to the next of them; at most Waiters
	Locks      int           // mutexes with one holder and one waiter each
	Slots      int           // of the semaphore of which all but one are held
	Searches   int           // for that one
	Contenders int           // that compete for one slot, and for four
	Window     time.Duration // for which they do
	Settle     time.Duration // how long waiters are left alone before Idle
	Idle       time.Duration // for which processor time of waiters is counted
}

// Bench measures. The zero value is not usable: see Open.
type Bench struct {
	sizes    Sizes
	say      func(format string, args ...any) // reports progress
	versions []string                         // of brokers that were measured
}

// Open permits this process, and the brokers that it starts, to have as many
// descriptors open as scenarios of those sizes need.
func Open(sizes Sizes, say func(format string, args ...any)) (*Bench, error) {
	const rest = 500 // files, databases, listeners, and what is just closing
	// A contender has two connections; those of slots that go through the relay
	// take two more here.
	needed := max(2*sizes.Waiters, 4*sizes.Locks, 2*sizes.Slots+6, 2*sizes.Contenders) + rest
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
			"or choose smaller -waiters, -locks and -slots", needed, permitted, err, needed)
	}
	return nil
}

// Versions returns what was measured.
func (b *Bench) Versions() []string { return b.versions }

// Close does nothing: every scenario has ended what it began.
func (b *Bench) Close() error { return nil }

// scenarios are in the order in which they run.
var scenarios = []struct {
	name    string
	measure func(ctx context.Context, s *scene) error
}{
	{"waiters", measureWaiters},
	{"locks", measureLocks},
	{"slots", measureSlots},
	{"turns", measureTurns},
}

// Scenarios returns what can be measured, in order, and the section of the report
// that each belongs to.
func Scenarios() (names, sections []string) {
	for _, s := range scenarios {
		names, sections = append(names, s.name), append(sections, "scale")
	}
	return names, sections
}

// Measure measures one of Scenarios, on a broker of its own.
func (b *Bench) Measure(ctx context.Context, name string) ([]*report.Measure, error) {
	for _, one := range scenarios {
		if one.name != name {
			continue
		}
		broker, err := measure.OpenBroker(ctx)
		if err != nil {
			return nil, err
		}
		if version := "RabbitMQ " + broker.Version(); !slices.Contains(b.versions, version) {
			b.versions = append(b.versions, version)
		}
		s := &scene{Bench: b, broker: broker, name: name}
		err = one.measure(ctx, s)
		return s.measures, errors.Join(err, broker.Close())
	}
	return nil, fmt.Errorf("there is no scenario %s", name)
}

// scene is one scenario.
type scene struct {
	*Bench
	broker   *measure.Broker
	name     string
	measures []*report.Measure
}

// add puts a figure into the report: the median of some samples.
func (s *scene) add(title, unit string, samples ...float64) *report.Measure {
	m := &report.Measure{Section: "scale", Title: title, Unit: unit}
	m.Add("berth", samples...)
	s.measures = append(s.measures, m)
	return m
}

// count puts a number into the report that is exact.
func (s *scene) count(title string, n int64) {
	s.add(title, "", float64(n)).Of("berth").Text = strconv.FormatInt(n, 10)
}

// addTimes puts the median of some durations into the report, in milliseconds.
func (s *scene) addTimes(title string, times []time.Duration) {
	m := s.add(title, "ms")
	for _, t := range times {
		m.Add("berth", measure.Milliseconds(t))
	}
}

// locks returns the locks of the broker at a URL.
func locks(url string) (*rabbit.Backend, error) {
	return rabbit.New(rabbit.Config{URLs: []string{url}})
}

// mutex names the nth mutex of the scenario. A lock is not used by the next one, for
// which holders that just left it might be in the way for a while.
func (s *scene) mutex(n int) lock.ID {
	return lock.ID{Kind: lock.Mutex, Name: fmt.Sprintf("%s-%d", s.name, n)}
}

// semaphore names the semaphore of the scenario.
func (s *scene) semaphore() lock.ID { return lock.ID{Kind: lock.Semaphore, Name: s.name} }

// resize gives the semaphore so many slots, as the command line does when
// nothing else is said.
func (s *scene) resize(ctx context.Context, at lock.Backend, slots int) error {
	const sweep = 16
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	defer cancel()
	a := at.Administrator(s.semaphore())
	_, _, err := a.Resize(ctx, sweep, func(int) (int, error) { return slots, nil })
	return errors.Join(err, a.Close())
}

// inParallel calls f for 0..n-1, some at a time, and returns what failed. It begins
// nothing new after a failure. From time to time it says how far it is.
func (s *scene) inParallel(n int, what string, f func(i int) error) error {
	var next, done, failures atomic.Int64
	errs := make([]error, min(n, atOnce))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for failures.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = f(i); errs[w] != nil {
					failures.Add(1)
				}
				if k := done.Add(1); k%500 == 0 {
					s.say("%d of %d %s", k, n, what)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}
