// Scale measures how many contenders a lock and its broker carry: what each of
// thousands of waiters costs in memory, processor time and messages, how soon
// one is woken, how long the search among a thousand slots takes, and whether
// those who compete get equal shares.
//
//	go run ./test/bench/scale                                  # everything, on a private RabbitMQ
//	go run ./test/bench/scale -waiters 200 -idle 10s waiters   # one scenario, smaller
//	go run ./test/bench/scale -json figures.json -broker amqp://user:password@host/vhost
//
// Contenders are those of package lock, all in this process: a berth that waits
// is a process and a guard on top of what is measured here. On a broker given
// by -broker, ledgers and batons of the locks stay behind; give it a virtual
// host that can be deleted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// scenario is something that is measured on a broker of its own.
type scenario struct {
	name    string
	measure func(ctx context.Context, b *bench) error
}

// scenarios are in the order in which they run.
var scenarios = []scenario{
	{"waiters", measureWaiters},
	{"locks", measureLocks},
	{"slots", measureSlots},
	{"fairness", measureFairness},
}

// options are what the command line says.
type options struct {
	broker    string
	brokerPID int
	json      string
	timeout   time.Duration
	sizes     sizes
	chosen    []string // names of scenarios; empty: all
}

// sizes say how much of everything there is.
type sizes struct {
	Waiters    int           `json:"waiters"`
	Handovers  int           `json:"handovers"`
	Counted    int           `json:"counted"`
	Locks      int           `json:"locks"`
	Slots      int           `json:"slots"`
	Searches   int           `json:"searches"`
	Contenders int           `json:"contenders"`
	Parallel   int           `json:"parallel"`
	Settle     time.Duration `json:"settle_ns"`
	Idle       time.Duration `json:"idle_ns"`
	Contest    time.Duration `json:"contest_ns"`
	Hold       time.Duration `json:"hold_ns"`
	Rest       time.Duration `json:"rest_ns"`
	Delay      time.Duration `json:"delay_ns"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status: 0, 1 if something could not be measured, 2 for
// wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "scale:", err)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, opts.timeout)
	defer cancel()
	if err := measure(ctx, opts, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "scale:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.broker, "broker", "", "amqp:// `URL` of a broker to measure (default: a private one for every scenario)")
	f.IntVar(&o.brokerPID, "broker-pid", 0, "with -broker: process `ID` of its Erlang machine on this host, whose memory and time are measured")
	f.StringVar(&o.json, "json", "", "write the figures to `FILE` too")
	f.DurationVar(&o.timeout, "timeout", time.Hour, "give up after this time")
	f.IntVar(&o.sizes.Waiters, "waiters", 2000, "waiters: how many wait for one mutex")
	f.IntVar(&o.sizes.Handovers, "handovers", 50, "waiters: how often it goes to the next of them")
	f.IntVar(&o.sizes.Counted, "counted", 20, "waiters: how many more join whose frames are counted")
	f.IntVar(&o.sizes.Locks, "locks", 1000, "locks: how many mutexes, each with one holder and one waiter")
	f.IntVar(&o.sizes.Slots, "slots", 1000, "slots: size of the semaphore of which all slots but one are held")
	f.IntVar(&o.sizes.Searches, "searches", 20, "slots: how often the free one is searched for")
	f.IntVar(&o.sizes.Contenders, "contenders", 12, "fairness: how many compete")
	f.IntVar(&o.sizes.Parallel, "parallel", 16, "how many connect at once")
	f.DurationVar(&o.sizes.Settle, "settle", 70*time.Second, "pause before an idle window: waiters look by themselves for a minute at first, and seldom after that")
	f.DurationVar(&o.sizes.Idle, "idle", time.Minute, "idle window over which processor time and frames are counted")
	f.DurationVar(&o.sizes.Contest, "contest", time.Minute, "fairness: how long they compete")
	f.DurationVar(&o.sizes.Hold, "hold", 0, "fairness: how long each keeps the slot")
	f.DurationVar(&o.sizes.Rest, "rest", 0, "fairness: pause between giving it back and coming again")
	f.DurationVar(&o.sizes.Delay, "delay", 10*time.Millisecond, "slots: delay in each direction by which round trips are counted")
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: scale [flags] [%s]...\n", strings.Join(names, "|"))
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.chosen = f.Args()
	for _, name := range o.chosen {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("there is no scenario %q; choose from %s", name, strings.Join(names, ", "))
		}
	}
	return o, o.check()
}

func (o options) check() error {
	for name, n := range map[string]int{
		"waiters": o.sizes.Waiters, "handovers": o.sizes.Handovers, "counted": o.sizes.Counted, "locks": o.sizes.Locks,
		"slots": o.sizes.Slots, "searches": o.sizes.Searches, "contenders": o.sizes.Contenders, "parallel": o.sizes.Parallel,
	} {
		if n < 1 {
			return fmt.Errorf("-%s is %d; give at least 1", name, n)
		}
	}
	if o.sizes.Handovers > o.sizes.Waiters {
		return fmt.Errorf("-handovers %d needs as many waiters, and there are %d; raise -waiters", o.sizes.Handovers, o.sizes.Waiters)
	}
	if o.sizes.Idle <= 0 || o.sizes.Contest <= 0 || o.sizes.Delay <= 0 {
		return errors.New("-idle, -contest and -delay have to be longer than nothing")
	}
	if o.broker != "" && !strings.HasPrefix(o.broker, "amqp://") {
		return errors.New("-broker is no amqp:// URL; frames can be counted on unencrypted connections only")
	}
	return nil
}
