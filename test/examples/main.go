// Command examples has the consumer of examples/single-consumer handle messages while it
// is handed over, killed and cut off: under berth, and as RabbitMQ's single active
// consumer.
//
//	make examples                                          # all; writes docs/single-consumer.md
//	make examples EXAMPLES="-messages 10000 -handovers 4"  # a try; the page stays as it is
//
// It knows processes, the network and the journal that the consumers write. It must not
// know how berth works: it runs the built binary. The tests run what examples/README.md
// and docs/recipes.md show.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
	"berth/test/brokertest"
)

// whole is what the page's table is measured with.
var whole = sizes{
	messages: 100_000, rate: 500, handovers: 20, kills: 5, partitions: 2,
	work: 300 * time.Microsecond, slowWork: 10 * time.Millisecond, long: 10 * time.Second,
}

// section of the page is what is generated.
const section = "consumers"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "examples:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	size := whole
	page := flag.String("markdown", "", "write the table into this `page`, unless another flag is given")
	flag.IntVar(&size.messages, "messages", size.messages, "how many are published")
	flag.IntVar(&size.rate, "rate", size.rate, "how many in a second")
	flag.IntVar(&size.handovers, "handovers", size.handovers, "how often the consumer is handed over")
	flag.IntVar(&size.kills, "kills", size.kills, "how often it is killed")
	flag.IntVar(&size.partitions, "partitions", size.partitions, "how often its host is cut off")
	flag.Parse()
	dir, err := os.MkdirTemp("", "berth-examples-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := build(ctx, dir)
	if err != nil {
		return err
	}
	broker, err := brokertest.Start(ctx)
	if err != nil {
		return err
	}
	before, ticksErr := measure.ReadTicks()
	verdicts, err := all(ctx, broker, p, size)
	after, moreErr := measure.ReadTicks()
	if err = errors.Join(err, ticksErr, moreErr, broker.Stop()); err != nil {
		return err
	}
	used, _ := after.Since(before)
	text := table(broker.Version(), measure.Commit(ctx), size, used, verdicts)
	fmt.Print(text)
	if *page != "" && size == whole {
		err = report.WriteText(section, *page, text)
	}
	return errors.Join(err, verdicts[0].wrong())
}

// all measures every scheme, one after the other.
func all(ctx context.Context, broker *brokertest.Broker, p programs, size sizes) (verdicts []verdict, err error) {
	say := func(format string, args ...any) { fmt.Fprintf(os.Stderr, "examples: "+format+"\n", args...) }
	for _, scheme := range schemes {
		v, err := try(ctx, broker, p, scheme, size, say)
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// build builds what is run, from the sources beside this program's.
func build(ctx context.Context, dir string) (programs, error) {
	p := programs{berth: filepath.Join(dir, "berth"), consumer: filepath.Join(dir, "single-consumer")}
	for _, one := range [][2]string{
		{"berth", p.berth}, {"berth/examples/single-consumer", p.consumer},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false",
			"-tags", "urfave_cli_no_docs,urfave_cli_no_suggest", "-o", one[1], one[0])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("cannot build %s: %w: %s", one[0], err, out)
		}
	}
	return p, nil
}
