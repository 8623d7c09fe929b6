package e2e

import (
	"syscall"
	"testing"
)

// failsTwice ends with 3 in its first two runs and with 0 in the third.
const failsTwice = `echo "$BERTH_SLOT" >>"$E2E_DIR/runs"; [ "$(wc -l <"$E2E_DIR/runs")" -ge 3 ] || exit 3`

func TestRestartNeverEndsAsTheCommandDid(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(failsTwice)
		b.wantStatus(3)
		if n := len(b.runs()); n != 1 {
			t.Errorf("the command ran %d times, not once", n)
		}
		c.wantFree()
	})
}

func TestRestartOnFailureEndsWithTheFirstSuccess(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(failsTwice, "--restart=on-failure")
		b.wantStatus(0)
		if n := len(b.runs()); n != 3 {
			t.Errorf("the command ran %d times, not 3", n)
		}
		b.wantKeptTheSlot()
		c.wantFree()
	})
}

// wantKeptTheSlot checks that all runs were in one and the same holding.
func (b *berth) wantKeptTheSlot() {
	b.t.Helper()
	if n := len(b.logged("slot won")); n != 1 {
		b.t.Errorf("the slot was won %d times, not once", n)
	}
}

func TestRestartAlwaysKeepsTheSlotBetweenRuns(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(`echo run >>"$E2E_DIR/runs"`, "--restart=always")
		b.awaitRunning()
		waiter := c.run(plain)
		waiter.awaitLog("waiting: held by others")
		b.awaitRuns(4)
		b.signal(syscall.SIGTERM)
		if got := b.status(); got != 143 && got != 0 { // between two runs, or in one that was just ending
			t.Errorf("berth ended with %d, not 143 or 0", got)
		}
		b.wantKeptTheSlot()
		b.wantNothingLeft()
		waiter.awaitRuns(1)
	})
}

// fault: stubborn-command
func TestWhatARunLeavesIsGoneBeforeTheNext(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	// Each run leaves a process in a session of its own, and counts those.
	b := c.run(`
		ls "$E2E_DIR"/left.* 2>/dev/null | while read -r f; do
			if kill -0 "$(cat "$f")" 2>/dev/null; then echo alive >>"$E2E_DIR/overlaps"; fi
		done
		rm -f "$E2E_DIR"/left.*
		(setsid sh -c 'trap "" TERM; echo $$ >"$E2E_DIR/left.$$"; exec sleep 1000' &)
		until ls "$E2E_DIR" | grep -q left; do sleep 0.01; done
		echo run >>"$E2E_DIR/runs"`, "--restart=always", "--stop=TERM 100ms, KILL")
	b.awaitRuns(3)
	b.signal(syscall.SIGTERM)
	b.status()
	b.wantNothingLeft()
	if overlaps := read(b.dir + "/overlaps"); overlaps != "" {
		t.Errorf("what a run had left was alive in the next one: %s", overlaps)
	}
}

// fault: signal-between
func TestTermBetweenTwoRunsEndsBerth(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run("exit 3", "--restart=on-failure")
		b.awaitLogs(3, "starting the command again")
		b.signal(syscall.SIGTERM)
		if got := b.status(); got != 143 && got != 3 {
			t.Errorf("berth ended with %d, not 143 or 3", got)
		}
		b.wantNothingLeft()
		c.wantFree()
	})
}
