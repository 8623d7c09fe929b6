package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// judge returns the flags of health checks by a shell script, ten each second, of which two in a row may not fail.
func judge(t testing.TB, script string, more ...string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "check")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{"--health-command=sh " + path, "--health-interval=100ms", "--health-retries=2"}, more...)
}

// hangs is a check that fails once its berth's command is to hang, and says why.
const hangs = `if [ -e "$E2E_DIR/hang" ]; then echo "nobody answers"; exit 3; fi`

func TestCommandThatHangsHasItsSlotGoToSomebodyElse(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree, append(judge(t, hangs), hook(t, "release", note), "--stop=TERM 100ms, KILL")...)
		b.awaitRuns(1)
		other := c.run(plain)
		other.awaitLog("held by others")
		create(t, filepath.Join(b.dir, "hang")).Close()
		other.awaitRuns(1)
		b.wantNoCommand()
		b.wantTurns("unhealthy")
		if failed := b.awaitLogs(2, "health check failed"); failed[0].text("output") != "nobody answers" ||
			failed[0].text("problem") != "it ended with 3" {
			t.Errorf("it says %v", failed[0])
		}
		b.stays()
		other.signal(syscall.SIGTERM)
		b.awaitRuns(2) // it was in line
		b.signal(syscall.SIGTERM)
		b.status()
		b.wantNothingLeft()
	})
}

func TestBerthSaysWhyItHasEndedItsCommand(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	for why, flags := range map[string][]string{
		"its health checks failed":       append(judge(t, "exit 1"), "--try"),
		"for too long (--max-run 100ms)": {"--max-run=100ms"},
		"not obtained: no health check":  append(judge(t, "exit 1"), "--health-while-waiting", "--try"),
		"within 1s: no health check":     append(judge(t, "exit 1"), "--health-while-waiting", "--timeout=1s"),
	} {
		want := 124
		if strings.Contains(why, "no health") {
			want = 75
		}
		b := do(t, want, c.args("trap 'exit 0' TERM; sleep 1000 & wait", flags...)...)
		if !strings.Contains(b.stderr(), why) {
			t.Errorf("it does not say %q: %s", why, b.stderr())
		}
		b.wantNothingLeft()
		c.wantFree()
	}
}

// daemon is a check that leaves behind what no signal but KILL ends.
const daemon = `(setsid sh -c 'trap "" TERM HUP; echo $$ >>"$E2E_DIR/daemons"; exec sleep 1000' &)
	until [ -s "$E2E_DIR/daemons" ]; do sleep 0.01; done`

func TestCheckLeavesNothingBehind(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(plain, judge(t, daemon)...)
		until(t, "two checks", func() bool { return len(lines(filepath.Join(b.dir, "daemons"))) > 1 })
		b.signal(syscall.SIGTERM)
		b.wantStatus(143)
		b.wantNothingLeft()
		c.wantFree()
	})
}

func TestCheckThatHangsHasFailedAndIsDeadWithItsBerth(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(plain, judge(t, stubborn, "--health-timeout=500ms")...)
		b.awaitLog("health check failed")
		until(t, "another check", func() bool { return len(lines(filepath.Join(b.dir, "runs"))) > 2 })
		b.signal(syscall.SIGKILL)
		b.status()
		b.wantNothingLeft()
		c.wantFreeSoon()
	})
}

func TestCheckEndsWithTheCommand(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(`until [ -e "$E2E_DIR/end" ]; do sleep 0.01; done; exit 7`, judge(t, stubborn, "--health-timeout=1h")...)
		b.awaitRuns(1)
		create(t, filepath.Join(b.dir, "end")).Close()
		b.wantStatus(7)
		b.wantNothingLeft()
		c.wantFree()
	})
}

func TestCheckRunsAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	b := setup{env: []string{"BERTH_PASSWORD=secret"}}.start(t, c.args(plain, judge(t,
		`env >"$E2E_DIR/env.new"; umask >>"$E2E_DIR/env.new"; mv "$E2E_DIR/env.new" "$E2E_DIR/env"; cat`,
		"--umask=0027")...)...)
	until(t, "a check", func() bool { return read(filepath.Join(b.dir, "env")) != "" })
	env := read(filepath.Join(b.dir, "env"))
	for _, want := range []string{"BERTH_REASON=running\n", "BERTH_SLOT=1\n", "BERTH_NAME=" + c.name + "\n", "0027\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("no %q in %s", want, env)
		}
	}
	if strings.Contains(env, "secret") {
		t.Error("it has the password")
	}
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
}

func TestHostThatIsNotFitLeavesTheSlotToOthers(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		holder := c.run(plain)
		holder.awaitRuns(1)
		b := c.run(plain, append(judge(t, hangs), "--health-while-waiting")...)
		b.awaitLog("held by others")
		create(t, filepath.Join(b.dir, "hang")).Close()
		b.awaitLog("takes no slot")
		other := c.run(plain)
		other.awaitLog("held by others")
		holder.signal(syscall.SIGTERM)
		other.awaitRuns(1)
		if len(b.runs()) > 0 {
			t.Error("it has run all the same")
		}
		if err := os.Remove(filepath.Join(b.dir, "hang")); err != nil {
			t.Fatal(err)
		}
		b.awaitLog("health check succeeded")
		other.signal(syscall.SIGTERM)
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		b.wantStatus(143)
		b.wantNothingLeft()
	})
}

func TestWaiterWhoseCheckHangsEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := onHost.contest(t, "mutex").run(plain, judge(t, stubborn, "--health-timeout=1h", "--health-while-waiting")...)
	b.awaitRuns(1) // of the check
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
	b.wantNothingLeft()
}

// A check that has longer than the slot. Its guard kills it, as the command's does the command, and says so.
func TestCheckOfABerthThatIsStoppedIsDeadBeforeSomebodyElseStarts(t *testing.T) {
	t.Parallel()
	c := onBroker.contest(t, "mutex")
	b := c.run(plain, append(judge(t, stubborn, "--health-timeout=1h"), shortLease...)...)
	b.awaitRuns(2) // one of them of the check
	other := c.run(plain, shortLease...)
	other.awaitLog("held by others")
	b.signal(syscall.SIGSTOP)
	other.awaitRuns(1)
	if left := b.command(); len(left) > 0 {
		t.Errorf("%v are alive", left)
	}
	b.signal(syscall.SIGCONT)
	b.awaitLog("slot lost")
	b.signal(syscall.SIGTERM)
	b.status()
	b.wantNothingLeft()
}
