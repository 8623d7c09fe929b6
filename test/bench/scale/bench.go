package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// patience bounds every single step. The slowest that works is a waiter whose
// baton was lost: it looks by itself within 20 s.
const patience = time.Minute

// bench is what a scenario works with.
type bench struct {
	*site
	sizes  sizes
	report *report
	stderr io.Writer
	name   string   // of the scenario
	relays []*relay // that stand before the broker; closed after the scenario
}

// measure runs the chosen scenarios and writes the report, with what there is
// of it also when one of them fails.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) error {
	r := &report{Began: time.Now().UTC(), Sizes: o.sizes}
	err := raiseDescriptors(o.needed())
	for _, s := range scenarios {
		if err == nil && o.runs(s.name) {
			err = measureOne(ctx, o, s, r, stderr)
		}
	}
	if len(r.Figures) == 0 {
		return err
	}
	return errors.Join(err, r.print(stdout), r.save(o.json))
}

// runs reports whether the scenario was chosen.
func (o options) runs(name string) bool {
	return len(o.chosen) == 0 || slices.Contains(o.chosen, name)
}

func measureOne(ctx context.Context, o options, s scenario, r *report, stderr io.Writer) error {
	b := &bench{sizes: o.sizes, report: r, stderr: stderr, name: s.name}
	var err error
	if b.site, err = openSite(ctx, o); err != nil {
		return err
	}
	r.Broker = b.site.version
	err = s.measure(ctx, b)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	for _, relay := range b.relays {
		relay.close()
	}
	return errors.Join(err, b.site.close())
}

// say reports progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.stderr, "%s scale: %s: %s\n", time.Now().UTC().Format("15:04:05"), b.name, fmt.Sprintf(format, args...))
}

// add puts a figure into the report.
func (b *bench) add(name string, value float64, unit string) {
	b.report.Figures = append(b.report.Figures, figure{b.name, name, value, unit})
}

// addTimes puts the median and the largest of some durations into the report.
func (b *bench) addTimes(name string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	b.add(name+", median", milliseconds(median(times)), "ms")
	b.add(name+", max", milliseconds(times[len(times)-1]), "ms")
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// backend returns the locks of a broker.
func backend(url string) (*rabbit.Backend, error) {
	return rabbit.New(rabbit.Config{URLs: []string{url}})
}

// mutex names the nth mutex of this run. Locks of another run on the same broker
// are others.
func (b *bench) mutex(n int) lock.ID {
	return lock.ID{Kind: lock.Mutex, Name: fmt.Sprintf("%s-%s-%d", b.prefix, b.name, n)}
}

// semaphore names a semaphore of this run.
func (b *bench) semaphore() lock.ID {
	return lock.ID{Kind: lock.Semaphore, Name: b.prefix + "-" + b.name}
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
