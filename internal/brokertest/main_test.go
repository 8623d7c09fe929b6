package brokertest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"berth/internal/brokertest"

	"go.uber.org/goleak"
)

// ownerVariable makes the test binary start a broker, say where, and hold it
// until it is killed or its stdin ends.
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
	if mode := os.Getenv(ownerVariable); mode != "" {
		return own(b, mode)
	}
	shared = b
	code := m.Run()
	if err := b.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// own is the process whose broker must not outlive it.
func own(b *brokertest.Broker, mode string) int {
	if mode == "paused" {
		if err := b.Pause(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Println(b.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = b.Stop()
	return 0
}
