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

func TestSignalsAreTakenThoughTheSupervisorIsBusy(t *testing.T) {
	queue := queueSignals()
	defer signal.Reset()
	defer queue.end()
	queue.queueAll()
	for range longQueue {
		for _, sig := range []unix.Signal{unix.SIGWINCH, unix.SIGUSR1} {
			if err := unix.Kill(os.Getpid(), sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	limit := time.After(20 * time.Second)
	for {
		select {
		case sig := <-queue.C():
			if sig == unix.SIGTERM {
				return
			}
		case <-limit:
			t.Fatal("TERM does not arrive")
		}
	}
}

func TestSignalsKeepTheirOrderThoughNobodyTakesThem(t *testing.T) {
	queue := newSignalQueue()
	queue.queueAll()
	var sent []os.Signal
	for range 200 {
		for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGWINCH, unix.SIGHUP} {
			queue.in <- sig // as package signal sends it: the queue may not have run yet
			sent = append(sent, sig)
		}
	}
	queue.running.Go(queue.run)
	defer queue.end()
	for n, want := range sent {
		if got := <-queue.C(); got != want {
			t.Fatalf("signal %d is %v, not %v", n, got, want)
		}
	}
}

func TestEndingSignalIsQueuedThoughManyOthersAre(t *testing.T) {
	queue := newSignalQueue()
	queue.queueAll()
	queue.running.Go(queue.run)
	defer queue.end()
	for range 10 * longQueue {
		queue.in <- unix.SIGWINCH
	}
	queue.in <- unix.SIGTERM
	for range cap(queue.in) + longQueue {
		if <-queue.C() == unix.SIGTERM {
			return
		}
	}
	t.Error("TERM was dropped, or has to wait for ever more")
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
		if got := commandEnv(own, c.account, false); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q", c.account, got)
		}
	}
}
