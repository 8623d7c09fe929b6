package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// shortLease are timings with a lease of two seconds.
var shortLease = []string{"--heartbeat=1s", "--verify-interval=300ms", "--verify-timeout=500ms",
	"--loss=TERM 200ms, KILL"}

// kill sends a signal to a process that is there.
func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("cannot send %v to process %d: %v", sig, pid, err)
	}
}

// fault: supervisor-killed
func TestSupervisorKilledThenTheTreeIsDeadAndTheSlotFree(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree)
		b.awaitRuns(1)
		waiter := c.run(plain)
		waiter.awaitLog("waiting: held by others")
		b.signal(syscall.SIGKILL)
		b.wantNothingLeft()
		waiter.awaitRuns(1)
	})
}

// fault: supervisor-killed
//
// On one host no command starts before the tree is dead, whichever process is killed. The guard may
// still be about to end.
func TestSupervisorKilledThenNobodyStartsBesideItsTree(t *testing.T) {
	t.Parallel()
	for range 5 {
		c := onHost.contest(t, "mutex")
		b := c.run(tree)
		b.awaitRuns(1)
		guard := b.guardPID()
		waiter := c.run(lookFor(b.mark))
		waiter.awaitLog("waiting: held by others")
		b.signal(syscall.SIGKILL)
		waiter.wantStatus(0)
		waiter.wantNothingSeen(guard)
	}
}

// lookFor is a command that looks for live processes with a mark and writes
// what it finds to the file "seen".
func lookFor(mark string) string {
	return `grep -lzsx "` + markVariable + "=" + mark +
		`" /proc/[0-9]*/environ >"$E2E_DIR/seen"; echo looked >>"$E2E_DIR/runs"`
}

// wantNothingSeen checks that the command of lookFor has found nothing but these
// processes.
func (b *berth) wantNothingSeen(but ...int) {
	b.t.Helper()
	if len(b.runs()) != 1 {
		b.t.Fatalf("it looked %d times, not once", len(b.runs()))
	}
	seen := slices.DeleteFunc(lines(filepath.Join(b.dir, "seen")), func(file string) bool {
		return slices.ContainsFunc(but, func(pid int) bool { return file == fmt.Sprintf("/proc/%d/environ", pid) })
	})
	if len(seen) > 0 {
		b.t.Errorf("when the command started there were still %v", seen)
	}
}

// fault: supervisor-killed-idle
//
// The lease is longer than the patience: without a release nobody would start.
func TestSupervisorKilledBetweenTwoRunsThenTheSlotIsFree(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(`exit 1`, "--restart=always", "--heartbeat=1m")
		for n := 1; ; n++ {
			pause := b.awaitLogs(n, "starting the command again")[n-1].text("in")
			if d, err := time.ParseDuration(pause); err != nil {
				t.Fatal(err)
			} else if d > time.Second {
				break
			}
		}
		waiter := c.run(plain, "--heartbeat=1m")
		waiter.awaitLog("waiting: held by others")
		b.signal(syscall.SIGKILL)
		waiter.awaitRuns(1)
		b.wantNothingLeft()
	})
}

// fault: supervisor-killed
func TestSupervisorKilledWhileStoppingThenTheTreeIsDead(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree, "--stop=TERM 10m, KILL")
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		b.awaitLog("command ended") // its first process
		b.signal(syscall.SIGKILL)
		b.wantNothingLeft()
		c.wantFreeSoon()
	})
}

// fault: supervisor-killed-idle
func TestSupervisorKilledWhileWaitingThenTheGuardEnds(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		holder := c.run(plain)
		holder.awaitRuns(1)
		waiter := c.run(plain)
		waiter.awaitLog("waiting: held by others")
		waiter.signal(syscall.SIGKILL)
		waiter.wantNothingLeft()
		holder.signal(syscall.SIGTERM)
		holder.wantStatus(143)
		c.wantFreeSoon()
	})
}

// fault: guard-killed
func TestGuardKilledThenTheTreeIsDeadAndBerthEndsWith137(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree)
		b.awaitRuns(1)
		kill(t, b.guardPID(), syscall.SIGKILL)
		b.wantStatus(137)
		b.wantNothingLeft()
		c.wantFree()
	})
}

// fault: guard-killed-idle
func TestGuardKilledWhileWaitingIsReplaced(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		holder := c.run(plain)
		holder.awaitRuns(1)
		waiter := c.run(plain)
		waiter.awaitLog("waiting: held by others")
		kill(t, waiter.guardPID(), syscall.SIGKILL)
		holder.signal(syscall.SIGTERM)
		waiter.awaitRuns(1)
		waiter.signal(syscall.SIGTERM)
		waiter.wantStatus(143)
		waiter.wantNothingLeft()
	})
}

// fault: supervisor-stopped
func TestSupervisorStoppedForLongerThanTheLeaseWithTheBroker(t *testing.T) {
	t.Parallel()
	for onLoss, check := range map[string]func(c contest, b, next *berth){
		"exit": func(_ contest, b, _ *berth) {
			b.wantStatus(76)
			b.wantNothingLeft()
		},
		"retry": func(c contest, b, next *berth) {
			b.awaitLog("slot lost")
			c.wantHeld()
			next.signal(syscall.SIGTERM)
			next.wantStatus(143)
			b.awaitRuns(2)
			b.signal(syscall.SIGTERM)
			b.wantStatus(143)
			b.wantNothingLeft()
		},
	} {
		t.Run(onLoss, func(t *testing.T) {
			t.Parallel()
			c := onBroker.contest(t, "mutex")
			b := c.run(tree, append(shortLease, quickStop, "--on-loss="+onLoss)...)
			b.awaitRuns(1)
			b.signal(syscall.SIGSTOP)
			b.wantNoCommand()
			next := c.run(plain)
			next.awaitRuns(1)
			b.signal(syscall.SIGCONT)
			check(c, b, next)
		})
	}
}

// fault: supervisor-stopped-local
func TestSupervisorStoppedOnOneHostKeepsTheSlot(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	b := c.run(tree, append(shortLease, quickStop)...)
	b.awaitRuns(1)
	stop(t, b.pid())
	c.wantHeld()
	b.wholeTree()
	b.signal(syscall.SIGCONT)
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
	b.wantNothingLeft()
	c.wantFree()
}

// fault: guard-frozen
func TestGuardFrozenThenTermEndsTheTreeAllTheSame(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree, quickStop)
		b.awaitRuns(1)
		b.freezeGuard(b.guardPID)
		b.signal(syscall.SIGTERM)
		b.wantStatus(137)
		b.wantNothingLeft()
		c.wantFree()
	})
}

// fault: guard-frozen
//
// A guard that is frozen cannot keep its deadline; the supervisor has it
// killed when the slot is lost.
func TestGuardFrozenThenALossEndsTheTreeAllTheSame(t *testing.T) {
	t.Parallel()
	c := onBroker.contest(t, "mutex")
	b := c.run(tree, "--loss=TERM 300ms, KILL", "--on-loss=exit")
	b.awaitRuns(1)
	b.freezeGuard(b.guardPID)
	deleteQueue("-1-B")(t, calmBroker(t), c)
	b.wantStatus(76)
	b.wantNothingLeft()
	c.wantFreeSoon()
}

// closeConnections closes every connection for the lock, as an operator would.
func closeConnections(t testing.TB, c contest) {
	t.Helper()
	n, err := calmBroker(t).CloseConnections(t.Context(), c.name)
	if err != nil || n == 0 {
		t.Fatalf("%d connections closed: %v", n, err)
	}
}

// What the tests that use lookFor rely on.
func TestLookForSeesALiveTree(t *testing.T) {
	t.Parallel()
	b := onHost.contest(t, "mutex").run(tree)
	b.awaitRuns(1)
	looks := onHost.contest(t, "mutex").run(lookFor(b.mark))
	looks.wantStatus(0)
	if seen := lines(filepath.Join(looks.dir, "seen")); len(seen) != treeSize+2 {
		t.Errorf("it saw %v, not %d processes", seen, treeSize+2)
	}
}
