package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "berth/internal/cli"           // so that go test runs the tests again when they have changed:
	_ "berth/internal/guard/process" // it knows nothing of the binaries that are built here
	"berth/test/brokertest"
)

var (
	built  programs
	rabbit *brokertest.Broker
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "berth-examples-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for the container's user
		return 1, err
	}
	// Each takes seconds, and one of them only waits.
	var building sync.WaitGroup
	var failed error
	building.Go(func() { built, failed = build(context.Background(), dir) })
	rabbit, err = brokertest.Start(context.Background())
	building.Wait()
	if err != nil {
		return 1, errors.Join(err, failed)
	}
	if failed != nil {
		return 1, errors.Join(failed, rabbit.Stop())
	}
	return m.Run(), rabbit.Stop()
}

// binaries is the directory that berth is in.
func binaries() string { return filepath.Dir(built.berth) }

// small is whole in seconds. Partitions, which take longest, are left to make examples.
var small = sizes{
	messages: 1500, rate: 500, handovers: 2, kills: 1, work: 300 * time.Microsecond, slowWork: 10 * time.Millisecond,
}

func TestConsumerIsAloneWhatever(t *testing.T) {
	t.Parallel()
	v, err := try(t.Context(), rabbit, built, schemes[0], small, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.wrong(); err != nil {
		t.Error(err)
	}
}

// What the page compares berth with has to work, too. It is not parallel, because it
// has the queue of the test above.
func TestSingleActiveConsumerLosesNothing(t *testing.T) {
	if !rabbit.Since(4, 0) {
		t.Skip("RabbitMQ 3.10 crashes such a queue when its consumer is killed (its issue 5460)")
	}
	for _, scheme := range schemes[1:] {
		v, err := try(t.Context(), rabbit, built, scheme, small, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		if v.lost > 0 || v.strangers > 0 {
			t.Errorf("%s: %+v", scheme.title, v)
		}
	}
	both := scheme{title: "both", berth: true, flags: []string{"-single-active"}}
	v, err := try(t.Context(), rabbit, built, both, small, t.Logf)
	if err = errors.Join(err, v.wrong()); err != nil {
		t.Error(err)
	}
}
