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

func TestSignalsKeepTheirOrderThoughNobodyTakesThem(t *testing.T) {
	received := signalsReceived{endings: make(chan os.Signal), rest: make(chan os.Signal)}
	queue, end := received.inOrder()
	defer signal.Reset()
	defer end()
	var sent []os.Signal
	for range 30 {
		for sig, channel := range map[os.Signal]chan os.Signal{
			unix.SIGTERM: received.endings, unix.SIGUSR1: received.rest, unix.SIGWINCH: received.rest, unix.SIGHUP: received.endings,
		} {
			channel <- sig
			sent = append(sent, sig)
		}
	}
	for n, want := range sent {
		if got := <-queue; got != want {
			t.Fatalf("signal %d is %v, not %v", n, got, want)
		}
	}
}

func TestEndingSignalIsQueuedThoughManyOthersAre(t *testing.T) {
	received := signalsReceived{endings: make(chan os.Signal), rest: make(chan os.Signal)}
	queue, end := received.inOrder()
	defer signal.Reset()
	defer end()
	for range 10 * longQueue {
		received.rest <- unix.SIGWINCH
	}
	received.endings <- unix.SIGTERM
	for range longQueue {
		if got := <-queue; got != unix.SIGWINCH {
			t.Fatalf("%v came first", got)
		}
	}
	if got := <-queue; got != unix.SIGTERM {
		t.Errorf("%v came instead", got)
	}
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
