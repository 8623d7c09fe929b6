package cli

import (
	"os"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestManySignalsDoNotCrowdOutTheOneThatEndsBerth(t *testing.T) {
	received, endings := receiveSignals()
	defer signal.Reset()
	until := time.Now().Add(20 * time.Second)
	send := func(sig unix.Signal, arrived func() bool) {
		for !arrived() {
			if time.Now().After(until) {
				t.Fatalf("%v does not arrive", sig)
			}
			if err := unix.Kill(os.Getpid(), sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(unix.SIGWINCH, func() bool { return len(received) == cap(received) })
	send(unix.SIGTERM, func() bool { return len(endings) > 0 })
}
