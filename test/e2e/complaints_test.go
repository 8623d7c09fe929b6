package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The tests in this file are named after what they protect. Each is a complaint
// of users of a similar tool, with the tool and the number of the report.

// fault: stubborn-command
//
// consul lock: the wrapper is killed or ended and the real program lives on, as
// a child of init, without the lock (797, 873, 1367, 2022, 3754).
func TestWrapperEndedDoesNotLeaveTheChildRunning(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			c := p.contest(t, "mutex")
			// A shell that is in between does not pass a signal on.
			b := c.run(`sh -c 'sh -c "echo up >>\"\$E2E_DIR/runs\"; sleep 1000; :"; :'; :`)
			b.awaitRuns(1)
			b.signal(sig)
			b.status()
			b.wantNothingLeft()
			c.wantFreeSoon()
		}
	})
}

// fault: signal-starting
//
// consul lock: the child is started although the wrapper is shutting down, and
// left running (800). noobaa: TERM between the start of the child and the note of
// its number gives the lock back with the child alive (PR 2084). At random moments
// here; TestSignalWhileTheCommandIsBeingStarted has the start itself for certain.
func TestChildIsNotStartedDuringShutdown(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		began := time.Now()
		b := c.run(tree, quickStop)
		b.awaitRunning()
		usual := min(time.Since(began), 400*time.Millisecond)
		b.signal(syscall.SIGTERM)
		b.wantStatus(143)
		for range 10 {
			b := c.run(tree, "--stop=TERM 20ms, KILL")
			// Anywhere from the first instruction to after the start of the command.
			time.Sleep(rand.N(usual + usual/2))
			b.signal(syscall.SIGTERM)
			b.wantEndOfAll()
		}
		c.wantFree()
	})
}

// wantEndOfAll checks that berth ends as TERM wants it, or as a command that was
// just slower than the short stop sequence, and that the command is dead by then.
func (b *berth) wantEndOfAll() {
	b.t.Helper()
	if got := b.status(); got != 143 && got != 137 {
		b.t.Errorf("berth ended with %d, not 143 or 137", got)
	}
	if left := b.command(); len(left) > 0 {
		b.t.Errorf("when berth had ended %v were left", left)
	}
	b.wantNothingLeft()
}

// fault: signal-starting
//
// The same at the very moment at which the slot is won.
func TestChildIsNotStartedWhenTermComesWithTheSlot(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		for range 5 {
			holder := c.run(plain)
			holder.awaitRuns(1)
			waiter := c.run(tree, "--stop=TERM 20ms, KILL")
			waiter.awaitLog("waiting: held by others")
			holder.signal(syscall.SIGTERM)
			holder.wantStatus(143)
			time.Sleep(rand.N(30 * time.Millisecond))
			waiter.signal(syscall.SIGTERM)
			waiter.wantEndOfAll()
			c.wantFree()
		}
	})
}

// fault: signal-waiting
//
// consul lock: while it waits for the lock it takes no signal (4439).
func TestSignalsAreHeededWhileWaiting(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		holder := c.run(plain)
		holder.awaitRuns(1)
		waiter := c.run(plain)
		waiter.awaitLog("waiting: held by others")
		waiter.signal(syscall.SIGTERM)
		waiter.wantStatus(143)
		holder.stays()
	})
}

// cleansUp takes a moment to end after TERM, and then ends with 3.
const cleansUp = `
	trap 'sleep 0.5; : >"$E2E_DIR/clean"; exit 3' TERM
	echo up >>"$E2E_DIR/runs"
	while :; do sleep 0.02; done`

func (b *berth) cleanedUp() bool {
	found, _ := filepath.Glob(filepath.Join(b.dir, "clean"))
	return len(found) > 0
}

// consul lock: the time from the first signal to KILL is fixed (984).
func TestGracePeriodIsConfigurable(t *testing.T) {
	t.Parallel()
	for grace, want := range map[string]struct {
		status int
		clean  bool
	}{
		"TERM 10m, KILL":  {3, true},
		"TERM 20ms, KILL": {137, false},
		"KILL":            {137, false},
	} {
		c := onHost.contest(t, "mutex")
		b := c.run(cleansUp, "--stop="+grace)
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		if got := b.status(); got != want.status || b.cleanedUp() != want.clean {
			t.Errorf("%s: ended with %d, clean %v", grace, got, b.cleanedUp())
		}
		b.wantNothingLeft()
	}
}

// fault: reset
//
// consul lock: one error, or one election, ends the commands of all holders of
// a semaphore (830, 1162).
func TestOneErrorDoesNotEndEveryHolder(t *testing.T) {
	t.Parallel()
	c := onBroker.contest(t, "semaphore")
	c.administer("create", "--slots=3")
	all := c.crew(3)
	all.awaitSlots("1", "2", "3")
	hit := all.in("2")
	n, err := calmBroker(t).CloseConnections(t.Context(), fmt.Sprintf("pid %d ", hit.pid()))
	if err != nil || n == 0 {
		t.Fatalf("%d connections closed: %v", n, err)
	}
	hit.awaitLog("slot reclaimed")
	all.awaitSlots("1", "2", "3")
	for _, b := range all {
		if len(b.runs()) != 1 || len(b.logged("slot lost")) > 0 {
			t.Errorf("a holder was hit, its runs are %v", b.runs())
		}
	}
}

// fault: supervisor-killed
//
// consul lock: a dead holder's lock stays blocked for 15 s and more (1006, 4508).
// etcdctl lock: for 60 s (8365). Here nobody's patience would be enough if the
// slot came free by a timeout.
func TestSlotOfAKilledHolderIsTakenOverWithoutATimeout(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree, "--heartbeat=60s")
		b.awaitRuns(1)
		waiter := c.run(plain, "--heartbeat=60s")
		waiter.awaitLog("waiting: held by others")
		b.signal(syscall.SIGKILL)
		waiter.awaitRuns(1)
	})
}

// fault: broker-silent
//
// consul lock: the child is killed 90 s after the lock has been lost to somebody
// else (9788). etcdctl lock: it is never killed.
func commandIsDeadWhileTheBrokerIsStillSilent(t *testing.T) {
	broker := roughBroker(t)
	b := lossCase{kind: "semaphore"}.made(t, broker).run(tree, append(shortLease, "--on-loss=exit")...)
	b.awaitRuns(1)
	if err := broker.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Continue() })
	b.wantStatus(76)
	b.wantNothingLeft()
}

// fault: stubborn-command
//
// consul lock: the lock is given back before the child has died of the final
// KILL. client-go: before the work has ended (PR 139991). Patroni: the watchdog is
// switched off before the backends are dead (3639).
func TestFinalKillIsWaitedForBeforeTheSlotIsGivenBack(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for range 5 {
			c := p.contest(t, "mutex")
			b := c.run(tree, "--stop=TERM 50ms, KILL")
			b.awaitRuns(1)
			waiter := c.run(lookFor(b.mark))
			waiter.awaitLog("waiting: held by others")
			guard := b.guardPID()
			b.signal(syscall.SIGTERM)
			waiter.wantStatus(0)
			waiter.wantNothingSeen(b.pid(), guard)
			b.wantStatus(143)
		}
	})
}

// fault: signal-running
//
// client-go: the lock is given back as soon as the holder is told to end, while
// its work goes on (PR 139991).
func TestSlotIsKeptWhileTheCommandCleansUp(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(`
			trap ': >"$E2E_DIR/told"; until [ -e "$E2E_DIR/go" ]; do sleep 0.02; done; exit 0' TERM
			echo up >>"$E2E_DIR/runs"
			while :; do sleep 0.02; done`, "--stop=TERM 10m, KILL")
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		until(t, "the command's answer to TERM", func() bool {
			found, _ := filepath.Glob(filepath.Join(b.dir, "told"))
			return len(found) > 0
		})
		c.wantHeld()
		b.stays()
		create(t, filepath.Join(b.dir, "go")).Close()
		b.wantStatus(0)
		c.wantFree()
	})
}

// consul lock: the exit status of the child is hidden. litefs: it is always 0 (264).
func TestExitStatusIsTheCommands(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		for script, status := range map[string]int{
			"exit 0": 0, "exit 1": 1, "exit 42": 42, "exit 255": 255,
			"kill -KILL $$": 137, "kill -SEGV $$": 139, "kill -TERM $$": 143,
		} {
			do(t, status, c.args(script)...)
		}
	})
}

// fault: signal-running
//
// client-go: TERM does not release the lock (PR 71490). litefs: INT does not (171).
func TestTermAndIntReleaseTheLock(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			b := c.run(plain, "--heartbeat=60s")
			b.awaitRuns(1)
			b.signal(sig)
			b.wantStatus(128 + int(sig))
			c.wantFree()
		}
	})
}

// fault: signal-running
//
// etcdctl lock: TERM is ignored, and the child not told.
func TestTermReachesTheCommand(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(cleansUp)
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		b.wantStatus(3)
		if !b.cleanedUp() {
			t.Error("the command did not clean up")
		}
	})
}
