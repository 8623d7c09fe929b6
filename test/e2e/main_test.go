package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	_ "berth/internal/cli"           // so that go test runs the tests again when they have changed:
	_ "berth/internal/guard/process" // it knows nothing of the binary that is built here
	"berth/test/brokertest"
)

// binary is the berth that is tested. Its directory has nothing else in it.
var binary string

func TestMain(m *testing.M) {
	if file := os.Getenv(recordVariable); file != "" {
		recordSignals(file)
	}
	waitTogether()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// waitTogether has four times as many tests run beside each other as usual, where the
// command line does not say how many: most of what they do is to wait.
func waitTogether() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))) // fails for no number
	}
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "berth-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if binary, err = build(dir); err != nil {
		return 1, err
	}
	takeIgnoredSignals()
	for i := range rough {
		idle <- &rough[i]
	}
	code = m.Run()
	return code, errors.Join(calm.stop(), rough[0].stop(), rough[1].stop(), goleak.Find())
}

// raceVariable has berth be built with the race detector. It then takes five times
// as much of the processor to start and to end, which is most of what it does here.
const raceVariable = "BERTH_TEST_RACE"

// build builds berth as it is built for users, or with the race detector.
func build(dir string) (string, error) {
	path := filepath.Join(dir, "berth")
	args := []string{"build", "-o", path, "-tags", "urfave_cli_no_docs,urfave_cli_no_suggest"}
	cgo := "0"
	if os.Getenv(raceVariable) != "" {
		args, cgo = append(args, "-race"), "1"
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build berth: %w\n%s", err, out)
	}
	return path, nil
}

// takeIgnoredSignals keeps the berths under test from inheriting an ignored HUP
// or INT, which they would respect, when the tests run in the background of a
// shell or under nohup.
func takeIgnoredSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// sharedBroker is a broker that is started when the first test asks for it and
// stays until the last one is done.
type sharedBroker struct {
	once   sync.Once
	broker *brokertest.Broker
	err    error
}

var (
	// calm is for tests that disturb nobody but their own locks.
	calm sharedBroker
	// rough are for tests that restart, stop or alarm a broker, one test at a time on each.
	rough [2]sharedBroker
	idle  = make(chan *sharedBroker, len(rough)) // those that no test has
)

func (s *sharedBroker) get(t testing.TB) *brokertest.Broker {
	t.Helper()
	s.once.Do(func() { s.broker, s.err = brokertest.Start(context.Background()) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.broker
}

func (s *sharedBroker) stop() error {
	if s.broker == nil {
		return nil
	}
	return s.broker.Stop()
}

// calmBroker returns the broker that all tests share and leave as it is.
func calmBroker(t testing.TB) *brokertest.Broker {
	t.Helper()
	return calm.get(t)
}

// roughBroker returns a broker that is this test's alone until it is done. The
// test leaves it running, without an alarm. See TestBrokerThatIsDisturbed.
func roughBroker(t testing.TB) *brokertest.Broker {
	t.Helper()
	s := <-idle
	t.Cleanup(func() { idle <- s })
	return s.get(t)
}
