package runner

import (
	"os"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSignalsAreTakenThoughTheSupervisorIsBusy(t *testing.T) {
	queue := QueueSignals(func(unix.Signal) {})
	defer signal.Reset()
	defer queue.End()
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
		case sig := <-queue.out:
			if sig == unix.SIGTERM {
				return
			}
		case <-limit:
			t.Fatal("TERM does not arrive")
		}
	}
}

func TestSignalsKeepTheirOrderThoughNobodyTakesThem(t *testing.T) {
	queue := newQueue(nil)
	queue.queueAll()
	var sent []os.Signal
	for range 200 {
		for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGWINCH, unix.SIGHUP} {
			queue.in <- sig // as package signal sends it: the queue may not have run yet
			sent = append(sent, sig)
		}
	}
	queue.running.Go(queue.run)
	defer queue.End()
	for n, want := range sent {
		if got := <-queue.out; got != want {
			t.Fatalf("signal %d is %v, not %v", n, got, want)
		}
	}
}

func TestEndingSignalIsQueuedThoughManyOthersAre(t *testing.T) {
	queue := newQueue(nil)
	queue.queueAll()
	queue.running.Go(queue.run)
	defer queue.End()
	for range 10 * longQueue {
		queue.in <- unix.SIGWINCH
	}
	queue.in <- unix.SIGTERM
	for range cap(queue.in) + longQueue {
		if <-queue.out == unix.SIGTERM {
			return
		}
	}
	t.Error("TERM was dropped, or has to wait for ever more")
}
