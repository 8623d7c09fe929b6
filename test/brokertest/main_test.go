package brokertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"berth/test/brokertest"
	"berth/test/process"
)

// ownerVariable makes the test binary start a broker, pause it, say where, and hold
// it until it is killed or its stdin ends.
const ownerVariable = "BERTH_BROKERTEST_OWNER"

// shared is the broker of the tests that leave it as they found it.
var shared *brokertest.Broker

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	b, err := brokertest.Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv(ownerVariable) != "" {
		return own(b)
	}
	shared = b
	code := m.Run()
	if err := errors.Join(stopsCleanly(b), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// stopsCleanly stops a broker, and says what is left of it.
func stopsCleanly(b *brokertest.Broker) error {
	if len(process.WithEnvironment("HOME="+b.Dir())) == 0 {
		return errors.New("found no process of a running broker")
	}
	if err := b.Stop(); err != nil {
		return err
	}
	if left := process.WithEnvironment("HOME=" + b.Dir()); len(left) > 0 {
		return fmt.Errorf("left by Stop: %d processes", len(left))
	}
	if _, err := os.Stat(b.Dir()); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the directory of a stopped broker: %v", err)
	}
	return b.Stop() // has no effect
}

// own is the process whose broker must not outlive it.
func own(b *brokertest.Broker) int {
	if err := b.Pause(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(b.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = b.Stop()
	return 0
}
