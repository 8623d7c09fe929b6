// Command efficiency settles what locks over RabbitMQ cost: tokens that are consumed beside
// queues that are declared (A/B), the ways to probe for queues, one after the other and in
// one go, on several versions of RabbitMQ.
//
//	make efficiency                                   # a quarter of an hour; writes docs/efficiency.txt
//	make efficiency EFFICIENCY="-rounds 1 -hold 2s"   # a try; the page stays as it is
//
// It knows the contract of a lock, its backend for RabbitMQ, and AMQP itself, for what is
// measured without berth. It must not know the command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
	"berth/test/brokertest"
)

// sizes say how much is measured.
type sizes struct {
	crowd  int           // contenders, and slots: of one lock, or of as many locks
	rounds int           // in which each takes and releases a slot
	hold   time.Duration // for how long they hold it
	probes int           // searches in one way
	hasty  bool          // figures do not matter
}

// whole is what the page is written with.
var whole = sizes{crowd: 20, rounds: 3, hold: 8 * time.Second, probes: 30}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "efficiency:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	size := whole
	page := flag.String("markdown", "", "write the tables into this `page`, if as much is measured as it says")
	samples := flag.String("json", "", "write every sample into this `file`")
	flag.IntVar(&size.rounds, "rounds", size.rounds, "how often every contender takes and releases a slot")
	flag.DurationVar(&size.hold, "hold", size.hold, "how long slots are held")
	flag.IntVar(&size.probes, "probes", size.probes, "searches in each way to probe")
	flag.Parse()
	if flag.NArg() == 0 || size.rounds < 1 || size.hold < verifyEvery || size.probes < 1 {
		return fmt.Errorf("name directories of RabbitMQ as scripts/brokers.sh prints them, with -rounds and -probes "+
			"of 1 or more and -hold of %s or more", verifyEvery)
	}
	r, err := measureAll(ctx, size, flag.Args())
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	fmt.Print(r.Text()) // also what there is of it when something has failed
	if err != nil {
		return err
	}
	if *samples != "" {
		if err := r.WriteJSON(*samples); err != nil {
			return err
		}
	}
	if *page == "" || size != whole {
		return nil
	}
	for _, section := range r.Sections() {
		if err := r.WriteSection(section, *page); err != nil {
			return err
		}
	}
	return nil
}

// measureAll measures on one broker after the other.
func measureAll(ctx context.Context, size sizes, brokers []string) (*report.Report, error) {
	r := &report.Report{Date: time.Now().UTC().Format(time.DateOnly), Commit: measure.Commit(ctx), Made: "make efficiency",
		Machine: measure.Machine()}
	var err error
	if r.Load, err = measure.Load(); err != nil {
		return r, err
	}
	before, err := measure.ReadTicks()
	if err != nil {
		return r, err
	}
	var own time.Duration
	all, began := &book{}, time.Now()
	for i, dir := range brokers {
		used, err := measure.AwaitQuiet(ctx, 0)
		if tooMuch := new(measure.BusyError); err != nil && !errors.As(err, &tooMuch) {
			return r, err
		}
		r.Busy = max(r.Busy, used)
		version, spent, err := measureOn(ctx, size, dir, i == 0, all)
		r.Measures = all.measures
		if err != nil {
			return r, fmt.Errorf("RabbitMQ in %s: %w", dir, err)
		}
		own += spent
		r.Versions = append(r.Versions, "RabbitMQ "+version)
	}
	after, err := measure.ReadTicks()
	used, stolen := after.Since(before)
	r.Stolen = stolen
	r.Others = max(0, used-own.Seconds()/time.Since(began).Seconds()/float64(runtime.NumCPU()))
	return r, err
}

// measureOn measures everything on the broker in a directory, and returns its version and
// the processor time that both sides have taken.
func measureOn(ctx context.Context, size sizes, dir string, counts bool, all *book) (
	version string, used time.Duration, err error,
) {
	if err := os.Setenv("BERTH_TEST_BROKER", dir); err != nil {
		return "", 0, err
	}
	broker, err := brokertest.Start(ctx)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	numbers := strings.Split(broker.Version(), ".")
	b := &bench{
		sizes: size, broker: broker, label: strings.Join(numbers[:min(2, len(numbers))], "."), counts: counts, all: all,
		say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "efficiency: "+format+"\n", args...) },
	}
	if b.pid, err = broker.PID(ctx); err != nil {
		return "", 0, err
	}
	before, err := b.snap()
	if err != nil {
		return "", 0, err
	}
	for _, slots := range []int{1, size.crowd} {
		if err := b.compare(ctx, slots); err != nil {
			return "", 0, err
		}
	}
	if err := b.probes(ctx); err != nil {
		return "", 0, err
	}
	after, err := b.snap()
	return broker.Version(), after.client - before.client + after.broker - before.broker, err
}
