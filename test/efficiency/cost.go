package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/bench/measure"
	"berth/test/brokertest"
)

// lag is what the network's way costs where round trips are counted. A step takes longer
// by twice that for each.
const lag = 25 * time.Millisecond

// bench measures on one broker.
type bench struct {
	sizes  sizes
	broker *brokertest.Broker
	pid    int    // of its Erlang machine
	label  string // of its version, in titles
	counts bool   // what is said, which is the same on all brokers
	say    func(format string, args ...any)

	all *book // where everything goes
}

// spent is what was spent since the process began.
type spent struct{ client, broker time.Duration }

// snap reads what both sides have spent.
func (b *bench) snap() (s spent, err error) {
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return s, err
	}
	broker, err := running(b.pid)
	return spent{time.Duration(own.Utime.Nano() + own.Stime.Nano()), broker}, err
}

// running returns for how long a process has been on a processor, by its threads: /proc/PID/stat
// counts in steps of 10 ms. The threads of an Erlang machine stay.
func running(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("cannot read what process %d uses: no schedstat in /proc (%v)", pid, err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// compare measures all schemes, with locks of so many slots.
func (b *bench) compare(ctx context.Context, slots int) error {
	section := sectionOf(slots)
	medians := map[string][]float64{} // of the steps of a scheme, in ms
	for _, s := range schemes {
		if err := create(ctx, s, b.broker.URL(), b.sizes.crowd, slots); err != nil {
			return err
		}
		b.say("RabbitMQ %s, %s: %s", b.label, section, s.name)
		took, err := b.direct(ctx, s, slots)
		if err != nil {
			return fmt.Errorf("cannot measure %s: %w", s.name, err)
		}
		medians[s.name] = took
	}
	if !b.counts {
		return nil
	}
	// What is counted does not depend on how busy the machine is: all at once.
	var counting sync.WaitGroup
	failed := make([]error, len(schemes))
	for i, s := range schemes {
		counting.Go(func() { failed[i] = b.counted(ctx, s, slots, medians[s.name]) })
	}
	counting.Wait()
	return errors.Join(failed...)
}

func sectionOf(slots int) string {
	if slots == 1 {
		return "one"
	}
	return "many"
}

// direct measures time, and processor time. It returns the medians of the steps in ms.
func (b *bench) direct(ctx context.Context, s scheme, slots int) (medians []float64, err error) {
	c, err := gather(ctx, s, b.broker.URL(), b.sizes, slots)
	defer c.disperse()
	if err != nil {
		return nil, err
	}
	section, n := sectionOf(slots), float64(b.sizes.crowd)
	times := make([][]float64, len(steps))
	sums := make([]spent, len(steps))
	for round := range b.sizes.rounds + 1 {
		var before spent
		err := c.round(ctx, func(int) (err error) {
			before, err = b.snap()
			return err
		}, func(i int, took []time.Duration) error {
			after, err := b.snap()
			if round == 0 { // it warms up
				return err
			}
			for _, t := range took {
				times[i] = append(times[i], measure.Milliseconds(t))
			}
			sums[i].client += after.client - before.client
			sums[i].broker += after.broker - before.broker
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i, step := range steps {
		done := n * float64(step.times*b.sizes.rounds)
		b.all.add(section+"-time", b.label+": "+step.name, "ms", true, s.name, times[i]...)
		b.all.add(section+"-work", b.label+": "+step.name+", the broker", "ms", false, s.name,
			measure.Milliseconds(sums[i].broker)/done)
		b.all.add(section+"-work", b.label+": "+step.name+", the client", "ms", false, s.name,
			measure.Milliseconds(sums[i].client)/done)
		medians = append(medians, middle(times[i]))
	}
	var before spent
	err = c.hold(ctx, b.sizes.hold, func() (err error) {
		before, err = b.snap()
		return err
	}, func() error {
		after, err := b.snap()
		hours := n * b.sizes.hold.Hours()
		b.all.add(section+"-hold", b.label+": processor time of the broker", "s per h", true, s.name,
			(after.broker-before.broker).Seconds()/hours)
		b.all.add(section+"-hold", b.label+": processor time of the client", "s per h", true, s.name,
			(after.client-before.client).Seconds()/hours)
		return err
	})
	return medians, err
}

// counted counts round trips and frames: through a relay that is late, to one that counts.
func (b *bench) counted(ctx context.Context, s scheme, slots int, direct []float64) error {
	relay, err := measure.NewRelay(b.broker.URL())
	if err != nil {
		return err
	}
	defer relay.Close()
	slow, through, err := delayed(relay.URL(), lag)
	if err != nil {
		return err
	}
	defer slow.Close()
	c, err := gather(ctx, s, through, b.sizes, slots)
	defer c.disperse()
	if err != nil {
		return err
	}
	section, n := sectionOf(slots), float64(b.sizes.crowd)
	var before measure.Messages
	count := func(int) (err error) {
		before, err = relay.Count()
		return err
	}
	err = c.round(ctx, count, func(i int, took []time.Duration) error {
		after, err := relay.Count()
		var all []float64
		for _, t := range took {
			all = append(all, measure.Milliseconds(t))
		}
		trips := math.Round((middle(all) - direct[i]) / measure.Milliseconds(2*lag))
		b.all.count(section+"-count", steps[i].name+", round trips", s.name, max(0, trips))
		done := n * float64(steps[i].times)
		b.all.add(section+"-count", steps[i].name+", frames to the broker", "", false, s.name,
			(after.Requests-before.Requests)/done)
		b.all.add(section+"-count", steps[i].name+", frames from it", "", false, s.name,
			(after.Answers-before.Answers)/done)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot count what %s says: %w", s.name, err)
	}
	c.disperse()
	punctual, err := gather(ctx, s, relay.URL(), b.sizes, slots)
	defer punctual.disperse()
	if err != nil {
		return err
	}
	return punctual.hold(ctx, b.sizes.hold, func() error { return count(0) }, func() error {
		after, err := relay.Count()
		hours := n * b.sizes.hold.Hours()
		b.all.add(section+"-hold", "frames to the broker", "per h", false, s.name,
			(after.Requests-before.Requests)/hours)
		b.all.add(section+"-hold", "frames from it", "per h", false, s.name,
			(after.Answers-before.Answers)/hours)
		return err
	})
}

func middle(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[len(sorted)/2]
}
