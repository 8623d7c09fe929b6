package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// hook returns the flag for a hook that is a shell script.
func hook(t testing.TB, name, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--on-" + name + "=sh " + path
}

// note is a script that writes down what a hook or command was told.
const note = `echo "$BERTH_REASON $BERTH_NAME $BERTH_SLOT" >>"$E2E_DIR/turns"`

// notes are hooks that do no more than that.
func notes(t testing.TB) []string {
	t.Helper()
	return []string{hook(t, "acquire", note), hook(t, "release", note), hook(t, "lost", note)}
}

// turns returns the reasons that hooks were told so far; that of the command is empty.
func (b *berth) turns() (reasons []string) {
	for _, line := range lines(filepath.Join(b.dir, "turns")) {
		reason, _, _ := strings.Cut(line, " ")
		reasons = append(reasons, reason)
	}
	return reasons
}

func (b *berth) wantTurns(want ...string) {
	b.t.Helper()
	if got := b.turns(); !slices.Equal(got, want) {
		b.t.Errorf("it came to %q, not %q", got, want)
	}
}

// stubborn is a hook of three processes, like tree, of which none ends at TERM.
const stubborn = `trap "" TERM INT; echo $PPID >"$E2E_DIR/guard"; ` + tree

func TestHooksRunAroundTheCommand(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		input := filepath.Join(t.TempDir(), "input")
		if err := os.WriteFile(input, []byte("for the command"), 0o600); err != nil {
			t.Fatal(err)
		}
		stdin, err := os.Open(input)
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		greedy := hook(t, "acquire", note+`; cat >>"$E2E_DIR/stolen"; echo from a hook; env >"$E2E_DIR/env"`)
		b := setup{stdin: stdin, env: []string{"BERTH_REASON=none", "BERTH_PASSWORD=secret"}}.start(t,
			c.args(note+`; cat; exit 7`, greedy, hook(t, "release", note), hook(t, "lost", note))...)
		b.wantStatus(7)
		if got, want := read(filepath.Join(b.dir, "turns")),
			"acquired "+c.name+" 1\n "+c.name+" 1\nended "+c.name+" 1\n"; got != want {
			t.Errorf("it came to %q, not %q", got, want)
		}
		if b.stdout() != "for the command" || read(filepath.Join(b.dir, "stolen")) != "" {
			t.Errorf("the command's output is %q", b.stdout())
		}
		if !strings.Contains(b.stderr(), "from a hook\n") {
			t.Error("what the hook said is lost")
		}
		if env := read(filepath.Join(b.dir, "env")); strings.Contains(env, "secret") ||
			strings.Contains(env, "BERTH_BROKER") || !strings.Contains(env, "BERTH_TERM=") {
			t.Errorf("the hook's environment is %s", env)
		}
		b.wantNothingLeft()
		c.wantFree()
	})
}

func TestHookThatUsesTheTerminalIsNotStoppedByIt(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	greedy := hook(t, "acquire", "echo from a hook; read x </dev/tty; :")
	term.types("stty tostop; \"$BINARY\" run --mutex m --hook-timeout 1h '" + greedy +
		`' -- echo "a com""mand"; echo "status $?"` + "\n")
	term.sees("from a hook")
	term.sees("a command")
	term.sees("status 0")
}

func TestHookThatFailsRefusesTheSlot(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		release := hook(t, "release", note)
		do(t, 75, c.args(note, hook(t, "acquire", "exit 3"), release, "--try")...).wantTurns()
		c.wantFree()
		b := c.run(note, hook(t, "acquire", `echo "try" >>"$E2E_DIR/turns"; [ "$(wc -l <"$E2E_DIR/turns")" -ge 2 ]`),
			release)
		b.wantStatus(0)
		b.wantTurns("try", "try", "", "ended")
		b.wantNothingLeft()
	})
}

func TestHookThatIsNotThereIsAMistakeInTheConfiguration(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	b := do(t, 78, c.args("true", "--on-lost=/no/such/program")...)
	if !strings.Contains(b.stderr(), "on_lost: cannot find") {
		t.Errorf("it says %s", b.stderr())
	}
}

func TestHookThatHangsIsKilledWithAllItHasStarted(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := do(t, 75, c.args(note, hook(t, "acquire", stubborn), "--hook-timeout=500ms", "--try")...)
		b.wantTurns()
		b.wantNothingLeft()
		c.wantFree()

		b = c.run("exit 3", hook(t, "release", stubborn), "--hook-timeout=500ms")
		b.wantStatus(3)
		b.wantNothingLeft()
		c.wantFree()
	})
}

func TestDaemonOfAHookIsDeadBeforeTheCommandStarts(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		daemon := `(setsid sh -c 'trap "" TERM HUP; echo $$ >"$E2E_DIR/daemon"; exec sleep 1000' &)
			until [ -s "$E2E_DIR/daemon" ]; do sleep 0.01; done`
		b := c.run(`if kill -0 "$(cat "$E2E_DIR/daemon")"; then exit 9; fi`, hook(t, "acquire", daemon),
			hook(t, "release", `rm "$E2E_DIR/daemon"; `+daemon))
		b.wantStatus(0)
		if n := len(b.logged("hook has left processes running")); n != 2 {
			t.Errorf("it says so %d times, not twice", n)
		}
		b.wantNothingLeft()
		c.wantFree()
	})
}

func TestTermDuringAHookEndsBerthInOrder(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(note, hook(t, "acquire", stubborn), hook(t, "release", note), quickStop, "--hook-timeout=1h")
		b.awaitRuns(1)
		c.wantHeld()
		b.signal(syscall.SIGTERM)
		b.wantStatus(143)
		b.wantTurns()
		b.wantNothingLeft()
		c.wantFree()

		// One during on_release lets it finish.
		b = c.run("exit 3", hook(t, "release", `echo >>"$E2E_DIR/runs"
			until [ -e "$E2E_DIR/go" ]; do sleep 0.01; done; `+note))
		b.awaitRuns(1)
		c.wantHeld()
		b.signal(syscall.SIGTERM)
		b.awaitLog("told to end")
		create(t, filepath.Join(b.dir, "go")).Close()
		b.wantStatus(3)
		b.wantTurns("ended")
		c.wantFree()
	})
}

// fault: signal-between
func TestOnReleaseIsToldWhyTheCommandEnded(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(plain, hook(t, "release", note))
		b.awaitRuns(1)
		b.signal(syscall.SIGTERM)
		b.wantStatus(143)
		b.wantTurns("signal")

		b = c.run("exit 3", hook(t, "release", note), "--restart=on-failure")
		b.awaitLogs(3, "starting the command again")
		b.signal(syscall.SIGTERM)
		b.status()
		b.wantTurns("signal")
		c.wantFree()
	})
}

// fault: supervisor-killed, guard-killed
func TestNothingIsLeftOfAHookWhenBerthOrItsGuardIsKilled(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for _, during := range []string{"acquire", "release"} {
			c := p.contest(t, "mutex")
			b := c.run("exit 3", hook(t, during, stubborn), "--hook-timeout=1h")
			b.awaitRuns(1)
			b.signal(syscall.SIGKILL)
			b.wantStatus(137)
			b.wantNothingLeft()
			c.wantFreeSoon()

			b = c.run("exit 3", hook(t, during, stubborn), "--hook-timeout=1h", "--try")
			b.awaitRuns(1)
			guard, err := strconv.Atoi(strings.TrimSpace(read(filepath.Join(b.dir, "guard"))))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			b.wantStatus(map[string]int{"acquire": 75, "release": 3}[during])
			b.wantNothingLeft()
			c.wantFree()
		}
	})
}

// fault: supervisor-stopped
func TestHookIsDeadByTheDeadlineOfABerthThatIsStopped(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"acquire", "release"} {
		c := onBroker.contest(t, "mutex")
		b := c.run("exit 3", append(slices.Clone(shortLease), hook(t, during, stubborn), hook(t, "lost", note),
			"--hook-timeout=1h", "--try")...)
		b.awaitRuns(1)
		b.signal(syscall.SIGSTOP)
		b.wantNoCommand()
		b.signal(syscall.SIGCONT)
		b.status()
		if got := b.turns(); during == "release" && (len(got) != 1 || got[0] != "deadline" && got[0] != "not-verified") {
			t.Errorf("on_lost was told %q", got)
		}
		b.wantNothingLeft()
		c.wantFreeSoon()
	}
}

// fault: b-deleted, slot-removed
func TestOnLostRunsWhenTheCommandIsDeadAndTheSlotGone(t *testing.T) {
	t.Parallel()
	for _, l := range calmLosses {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			broker := calmBroker(t)
			c := l.made(t, broker)
			alive := `for p in $(cat "$E2E_DIR/pids"); do kill -0 $p && echo "$p lives" >>"$E2E_DIR/turns"; done; `
			b := c.run(tree, quickLoss, "--on-loss=exit", hook(t, "acquire", note), hook(t, "release", note),
				hook(t, "lost", alive+note))
			b.awaitRuns(1)
			var pids []string
			for _, p := range b.wholeTree() {
				pids = append(pids, strconv.Itoa(p.pid))
			}
			if err := os.WriteFile(filepath.Join(b.dir, "pids"), []byte(strings.Join(pids, " ")), 0o600); err != nil {
				t.Fatal(err)
			}
			l.take(t, broker, c)
			b.wantStatus(76)
			b.wantTurns("acquired", "lost")
			b.wantNothingLeft()
		})
	}
}

// fault: b-deleted
func TestHookInASlotThatIsTakenAwayIsEnded(t *testing.T) {
	t.Parallel()
	for during, want := range map[string]struct {
		status int
		turns  []string
	}{"acquire": {75, nil}, "release": {3, []string{"lost"}}} {
		l := calmLosses[0]
		broker := calmBroker(t)
		c := l.made(t, broker)
		b := c.run("exit 3", quickLoss, "--try", hook(t, during, stubborn), hook(t, "lost", note), "--hook-timeout=1h")
		b.awaitRuns(1)
		b.awaitLog("hook started")
		until(t, "queue B", func() bool {
			_, found, err := broker.Queue(t.Context(), "/", c.name+"-1-B")
			return found && err == nil
		})
		l.take(t, broker, c)
		b.wantStatus(want.status)
		b.wantTurns(want.turns...)
		b.wantNothingLeft()
		c.wantFreeSoon()
	}
}

func TestHookInANamespaceOfItsOwn(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	b := do(t, 75, c.args(note, hook(t, "acquire", stubborn), "--hook-timeout=500ms", "--try", inNamespace)...)
	b.wantNothingLeft()
	b = do(t, 0, c.args(note, append(notes(t), inNamespace)...)...)
	b.wantTurns("acquired", "", "ended")
	b.wantNothingLeft()
}

// fault: ctrl-c
func TestHooksLeaveTheTerminalToBerthAndTheCommand(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`"$BINARY" run --mutex m --on-acquire "sleep 2000" -- sleep 1000; echo "status $?"` + "\n")
	term.find("sleep", "2000")
	term.types(ctrlC)
	term.sees("status 130")
	term.worksAgain()

	term.types(`"$BINARY" run --mutex m --try --hook-timeout 300ms --on-acquire "sh -c 'read x </dev/tty'" -- ` +
		`sleep 1000; echo "status $?"` + "\n")
	term.sees("status 75")
	term.worksAgain()

	term.types(`"$BINARY" run --mutex m --on-acquire true --on-release true -- ` +
		`sh -c 'printf "na""me: "; read x; echo "hello $x"'; echo "status $?"` + "\n")
	term.sees("name: ")
	term.types("you\n")
	term.sees("hello you")
	term.sees("status 0")
	term.worksAgain()
}

// From the beginning of on_acquire to the end of on_release nobody else is in the slot.
func TestHooksOfTwoHoldersDoNotOverlap(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		dir := t.TempDir()
		enter := hook(t, "acquire", `mkdir "$E2E_DIR/in" || echo overlap >>"$E2E_DIR/overlaps"`)
		leave := hook(t, "release", `sleep 0.02; rmdir "$E2E_DIR/in"`)
		var all []*berth
		for range 5 {
			all = append(all, setup{dir: dir}.start(t, c.args("echo >>$E2E_DIR/runs; sleep 0.02", enter, leave)...))
		}
		for _, b := range all {
			b.wantStatus(0)
			b.wantNothingLeft()
		}
		if n := len(all[0].runs()); n != len(all) {
			t.Errorf("%d runs, not %d", n, len(all))
		}
		if overlaps := read(filepath.Join(dir, "overlaps")); overlaps != "" {
			t.Errorf("hooks of two holders ran at once:\n%s", overlaps)
		}
	})
}

// fault: broker-silent
func hookEndsWhileTheBrokerIsSilent(t *testing.T) {
	broker := roughBroker(t)
	var all []*berth
	for _, during := range []string{"acquire", "release"} {
		c := lossCase{kind: "mutex"}.made(t, broker)
		b := c.run("exit 3", append(slices.Clone(shortLease), hook(t, during, stubborn), hook(t, "lost", note),
			"--hook-timeout=1h", "--try")...)
		b.awaitRuns(1)
		all = append(all, b)
	}
	if err := broker.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		b.wantNoCommand()
	}
	if err := broker.Continue(); err != nil {
		t.Fatal(err)
	}
	all[0].wantStatus(75)
	all[0].wantTurns()
	all[1].wantStatus(3)
	all[1].wantTurns("not-verified")
	for _, b := range all {
		b.wantNothingLeft()
	}
}
