package cli

import (
	"os"
	"os/signal"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/config"
)

func TestManySignalsDoNotCrowdOutTheOneThatEndsBerth(t *testing.T) {
	received := receiveSignals()
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
	send(unix.SIGWINCH, func() bool { return len(received.rest) == cap(received.rest) })
	send(unix.SIGTERM, func() bool { return len(received.endings) > 0 })
}

func TestEnvironmentIsThatOfTheUser(t *testing.T) {
	own := []string{"HOME=/root", "BERTH_BROKER=amqp://u:p@h", "LANG=C", "USER=root", "LOGNAME=root"}
	for _, c := range []struct {
		account *config.Account
		want    []string
	}{
		{nil, []string{"HOME=/root", "LANG=C", "USER=root", "LOGNAME=root"}},
		{&config.Account{Name: "worker", Home: "/srv"}, []string{"LANG=C", "HOME=/srv", "USER=worker", "LOGNAME=worker"}},
	} {
		if got := commandEnv(own, c.account); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c.account, got)
		}
	}
}
