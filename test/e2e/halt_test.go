package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	proc "berth/test/process"
)

// fault: guard-stopped
//
// Who stops a guard would hide the command's end.
func TestGuardStoppedThenTheCommandsEndIsSeenAtOnce(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for _, flags := range [][]string{nil, {inNamespace}} {
			c := p.contest(t, "mutex")
			b := c.run(`echo >>"$E2E_DIR/runs"; while [ ! -e "$E2E_DIR/end" ]; do sleep 0.01; done; exit 7`, flags...)
			b.awaitRuns(1)
			kill(t, b.guardPID(), syscall.SIGSTOP)
			b.awaitLog("the guard was stopped")
			if err := os.WriteFile(filepath.Join(b.dir, "end"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b.wantStatus(7)
			b.wantNothingLeft()
			c.wantFree()
		}
	})
}

// stop stops a process, and waits until none of its threads runs any more: on a busy host a berth that has heard of its
// command's end would take the will back meanwhile.
func stop(t testing.TB, pid int) {
	t.Helper()
	kill(t, pid, syscall.SIGSTOP)
	if err := proc.AwaitStopped(pid, patience); err != nil {
		t.Fatal(err)
	}
}

// On a host the guard gives the slot back, and not before the last process is dead.
func TestBerthStoppedThenTheSlotIsFreeWhenTheTreeIsDead(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(`echo >>"$E2E_DIR/runs"; while [ ! -e "$E2E_DIR/end" ]; do sleep 0.01; done
			setsid sleep 1000 & echo $! >"$E2E_DIR/pid"; mv "$E2E_DIR/pid" "$E2E_DIR/left"; exit 7`)
		b.awaitRuns(1)
		stop(t, b.pid())
		if err := os.WriteFile(filepath.Join(b.dir, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		left := filepath.Join(b.dir, "left")
		until(t, "the command's end", func() bool { return read(left) != "" })
		c.wantHeld()
		pid, err := strconv.Atoi(strings.TrimSpace(read(left)))
		if err != nil {
			t.Fatal(err)
		}
		kill(t, pid, syscall.SIGKILL)
		c.wantFreeSoon()
		kill(t, b.pid(), syscall.SIGCONT)
		b.wantStatus(7)
		b.wantNothingLeft()
		c.wantFree()
	}, onHost)
}

// fault: supervisor-killed
//
// A supervisor that dies beside its command has read nothing of that end.
func TestBerthKilledWithItsCommandThenTheSlotIsFreeAtOnce(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(`echo >>"$E2E_DIR/runs"; while [ ! -e "$E2E_DIR/end" ]; do sleep 0.01; done`,
			"--heartbeat=60s")
		b.awaitRuns(1)
		first := b.commandPID()
		stop(t, b.pid())
		if err := os.WriteFile(filepath.Join(b.dir, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		until(t, "the command's end", func() bool {
			_, alive := inspect(first)
			return !alive
		})
		kill(t, b.pid(), syscall.SIGKILL)
		c.wantFreeSoon()
	})
}
