package e2e

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// quickStop is a stop sequence for trees that ignore TERM.
const quickStop = "--stop=TERM 600ms, KILL"

// endings are the signals that end berth, with the exit status of a command
// that they end.
var endings = map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGQUIT: 131}

// silentPort returns the address of a port that accepts connections and says
// nothing, and a channel with one value per connection.
func silentPort(t testing.TB) (string, <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, done := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			accepted <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String(), accepted
}

// fault: signal-waiting
func TestSignalEndsBerthWhileItConnects(t *testing.T) {
	t.Parallel()
	for sig, status := range endings {
		addr, accepted := silentPort(t) // of its own: berth connects twice
		b := start(t, "run", "--broker", "amqp://"+addr, "--mutex", "m", "--", "true")
		<-accepted
		b.signal(sig)
		b.wantStatus(status)
		b.wantNothingLeft()
	}
}

// fault: hup-waiting
func TestHangupWhileItConnectsIsNoted(t *testing.T) {
	t.Parallel()
	addr, accepted := silentPort(t)
	b := start(t, "run", "--broker", "amqp://"+addr, "--mutex", "m", "--", "true")
	<-accepted
	b.signal(syscall.SIGHUP)
	b.awaitLog("signal received, but no command runs")
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
	b.wantNothingLeft()
}

// fault: hup-running
//
// The first process gets it as at any other time; the sequence goes on.
func TestHangupDuringTheStopSequenceReachesTheCommand(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		b := p.contest(t, "mutex").run(`trap "" TERM; trap 'exit 7' HUP
			echo up >>"$E2E_DIR/runs"; while :; do sleep 0.02; done`, "--stop=TERM 1h, KILL")
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		b.awaitLog("ending the command")
		b.signal(syscall.SIGHUP)
		b.wantStatus(7)
		b.wantNothingLeft()
	})
}

// fault: signal-waiting
func TestSignalEndsBerthWhileEverySlotIsHeld(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		holder := c.run(plain)
		holder.awaitRuns(1)
		for sig, status := range endings {
			waiter := c.run(plain)
			waiter.awaitLog("waiting: held by others")
			waiter.signal(sig)
			waiter.wantStatus(status)
			waiter.wantNothingLeft()
			if len(waiter.runs()) > 0 {
				t.Error("the command of the waiter was run")
			}
		}
		c.wantHeld()
		holder.stays()
	})
}

// fault: signal-waiting
func TestSignalEndsBerthWhileTheLockDoesNotExist(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		for sig, status := range endings {
			b := c.run(plain)
			b.awaitLog("waiting: the lock does not exist")
			b.signal(sig)
			b.wantStatus(status)
			b.wantNothingLeft()
		}
	})
}

// fault: hup-waiting
func TestHangupIsNotedAndNotKeptWhileNoCommandRuns(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		holder := c.run(plain)
		holder.awaitRuns(1)
		waiter := c.run(plain)
		waiter.awaitLog("waiting: held by others")
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
			waiter.signal(sig)
		}
		waiter.awaitLogs(2, "no command runs that could get it")
		holder.signal(syscall.SIGTERM)
		waiter.awaitRuns(1)
		waiter.signal(syscall.SIGTERM)
		waiter.wantStatus(143) // neither 129 nor 138
		waiter.wantNothingLeft()
	})
}

// fault: stubborn-command, signal-running
func TestSignalEndsTheWholeTree(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		for sig, status := range endings {
			b := c.run(tree, quickStop)
			b.awaitRuns(1)
			b.wholeTree()
			b.signal(sig)
			b.wantStatus(status)
			if left := b.command(); len(left) > 0 {
				t.Errorf("when berth had ended %v were left", left)
			}
			c.wantFree()
			b.wantNothingLeft()
		}
	})
}

// fault: hup-running
func TestWhatHangupLeavesRunningIsEnded(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree, quickStop)
		b.awaitRuns(1)
		b.signal(syscall.SIGHUP) // which ends the first process only
		b.wantStatus(129)
		b.wantNothingLeft()
		c.wantFree()
	})
}

// fault: signal-again
func TestSecondSignalIsHandedOnDuringTheStopSequence(t *testing.T) {
	t.Parallel()
	const script = `
		trap 'if [ -e "$E2E_DIR/termed" ]; then exit 10; fi; : >"$E2E_DIR/termed"' TERM
		trap 'exit 11' INT
		trap 'exit 12' QUIT
		trap 'exit 13' HUP
		echo up >>"$E2E_DIR/runs"
		while :; do sleep 0.02; done`
	for sig, status := range map[syscall.Signal]int{
		syscall.SIGTERM: 10, syscall.SIGINT: 11, syscall.SIGQUIT: 12, syscall.SIGHUP: 13,
	} {
		c := onHost.contest(t, "mutex")
		b := c.run(script, "--stop=TERM 10m, KILL")
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		until(t, "the command's answer to the first signal", func() bool {
			found, _ := filepath.Glob(filepath.Join(b.dir, "termed"))
			return len(found) > 0
		})
		b.signal(sig)
		b.wantStatus(status)
		b.wantNothingLeft()
		c.wantFree()
	}
}

// answers ends with another status for each of these signals.
const answers = `
	trap 'exit 21' USR1
	trap 'exit 22' HUP
	trap 'exit 23' USR2
	trap 'exit 24' INT
	echo up >>"$E2E_DIR/runs"
	while :; do sleep 0.02; done`

func TestSignalIsRewritten(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags  []string
		send   []syscall.Signal
		status int
	}{
		{nil, []syscall.Signal{syscall.SIGUSR2}, 23},
		{[]string{"--rewrite=HUP=USR1"}, []syscall.Signal{syscall.SIGHUP}, 21},
		{[]string{"--rewrite=USR2=", "--rewrite=HUP=USR1"}, []syscall.Signal{syscall.SIGUSR2, syscall.SIGHUP}, 21},
		{[]string{"--rewrite=TERM=INT", "--stop=TERM 10m, KILL"}, []syscall.Signal{syscall.SIGTERM}, 24},
	} {
		b := onHost.contest(t, "mutex").run(answers, test.flags...)
		b.awaitRuns(1)
		for _, sig := range test.send {
			b.signal(sig)
			if sig == syscall.SIGUSR2 && len(test.send) > 1 { // pending signals keep no order
				b.awaitLog("signal dropped")
			}
		}
		b.wantStatus(test.status)
	}
}

// Like under nohup(1), or as a background job of a shell without job control.
func TestIgnoredHangupStaysIgnored(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	b := setup{via: []string{"nohup"}}.start(t, c.args(plain)...)
	b.awaitRuns(1)
	b.signal(syscall.SIGHUP)
	kill(t, b.commandPID(), syscall.SIGHUP)
	b.signal(syscall.SIGTERM)
	b.wantStatus(143) // not 129
	b.wantNothingLeft()
}
