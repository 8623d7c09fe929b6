package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// fault: ctrl-z
func TestCtrlZSuspendsTheCommandAndNotBerth(t *testing.T) {
	t.Parallel()
	for name, goOn := range map[string]func(term *terminal, berth int){
		"Ctrl-Z": func(term *terminal, _ int) { term.types(ctrlZ) },
		"CONT":   func(term *terminal, berth int) { _ = syscall.Kill(berth, syscall.SIGCONT) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.types(`berth sleep 1000; echo "status $?"` + "\n")
			command := term.command()
			berth := term.find(binary, "run", "--mutex", "m", "--", "sleep", "1000").pid
			for range 2 {
				term.types(ctrlZ)
				term.sees("command suspended")
				term.awaitState(command.pid, "T")
				if got := term.foreground(); got == command.pid {
					t.Error("a suspended command has the terminal")
				}
				goOn(term, berth)
				term.sees("command continued")
				term.awaitState(command.pid, "S")
				term.command()
			}
			term.types(ctrlC)
			term.sees("status 130")
			term.worksAgain()
		})
	}
}

// fault: ctrl-z
func TestCtrlCEndsASuspendedCommand(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sleep 1000; echo "status $?"` + "\n")
	term.command()
	term.types(ctrlZ)
	term.sees("command suspended")
	term.types(ctrlC)
	term.sees("status 130")
	term.worksAgain()
}

// fault: ctrl-z, pipeline
func TestCtrlZSuspendsAPipelineAndContinuesIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		berth string
		goOn  func(term *terminal)
	}{
		"Ctrl-Z": {`"$BINARY" run --mutex m --`, func(term *terminal) { term.types(ctrlZ) }},
		// The shell's function is a process that stops, so that the shell goes on.
		"fg": {"berth", func(term *terminal) {
			shell := term.cmd.Process.Pid
			until(term.t, "the shell in the foreground", func() bool { return term.foreground() == shell })
			term.types("fg\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			script := `echo u""p; read x; echo "go""t $x"`
			term.types("cat | " + c.berth + " sh -c '" + script + "'\n")
			term.sees("up\r\n")
			cat, command := term.find("cat"), term.find("sh", "-c", script)
			term.types(ctrlZ)
			term.sees("command suspended")
			term.awaitState(command.pid, "T")
			term.awaitState(cat.pid, "T")
			c.goOn(term)
			term.sees("command continued")
			term.awaitState(cat.pid, "S")
			term.types("line\n")
			term.sees("got line")
			term.types("\x04") // the end of what cat reads
			term.worksAgain()
		})
	}
}

// fault: background
func TestBerthInTheBackgroundLeavesTheTerminalAlone(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types("berth sleep 1000 &\n")
	command := term.find("sleep", "1000")
	term.sees("command started")
	term.worksAgain()
	term.types("kill %1; wait %1; echo \"status $?\"\n")
	term.sees("status 143")
	// The shell's job is its function: berth gets TERM beside it.
	until(t, "the end of the command", func() bool { _, alive := inspect(command.pid); return !alive })
}

// awaitStoppedJob waits until the job of the shell has stopped, but for berth. A
// shell that learned of it after fg would take the terminal back.
func (term *terminal) awaitStoppedJob() {
	term.t.Helper()
	until(term.t, "the job stopped", func() bool {
		var children int
		for _, p := range marked(term.mark) {
			if p.parent != term.cmd.Process.Pid || p.args[0] == binary {
				continue
			}
			if p.state != "T" {
				return false
			}
			children++
		}
		return children > 0
	})
}

// The shell does not know that the pager was stopped, because berth was not.
func TestPagerThatWasStoppedInTheBackgroundGoesOnInTheForeground(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	// It reads once more when the guard has looked for the terminal again.
	pager := `head -c 1; read x </dev/tty; sleep 0.3; read y </dev/tty; echo "go""t $x $y"`
	term.types(`"$BINARY" run --mutex m -- sh -c "echo line; sleep 1000" | sh -c '` + pager + "' &\n")
	term.sees("command started")
	term.sees("command stopped until it has the terminal")
	term.awaitStoppedJob()
	term.types("fg\n")
	term.awaitState(term.find("sh", "-c", pager).pid, "S")
	term.types("one\n")
	term.types("two\n")
	term.sees("got one two")
	term.types(ctrlC)
	term.worksAgain()
}

// With TTOU received instead of obeyed, a write that is refused for it would be
// tried again for ever.
func TestLastLineComesFromTheBackgroundOfATerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types("berth sleep 1000 &\n")
	term.sees("command started")
	term.types("stty tostop\n")
	term.types(`"$BINARY" run --mutex m --try -- true & wait $!; echo "status $?"` + "\n")
	term.sees("is held")
	term.sees("status 75")
	term.worksAgain()
}

// fault: background
func TestBerthBroughtToTheForegroundGivesTheCommandTheTerminal(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"that waits to read": `read x; echo "go""t $x"`,
		"that reads later":   `until [ -e "$GO" ]; do sleep 0.02; done; read x; echo "go""t $x"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			flag := t.TempDir() + "/go"
			term.types("export GO=" + flag + "\n")
			term.sees("prompt> ")
			term.types("berth sh -c '" + script + "' &\n")
			term.sees("command started")
			p := term.find("sh", "-c", script)
			if !strings.Contains(script, "GO") {
				term.sees("command stopped until it has the terminal")
				term.awaitState(p.pid, "T") // it reads from the background
			}
			term.types("fg; echo \"status $?\"\n")
			until(t, "berth in the foreground", func() bool { return term.foreground() != term.cmd.Process.Pid })
			create(t, flag).Close()
			until(t, "the command in the foreground", func() bool { return term.foreground() == p.pid })
			term.types("line\n")
			term.sees("got line")
			term.sees("status 0")
			term.worksAgain()
		})
	}
}

// A shell in the command gave the terminal to a job of its own, and was killed
// before it took it back.
func TestCommandThatLostTheTerminalToAJobOfItsOwnIsSuspended(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sh -c 'bash --norc -ic "sleep 1000; :"; read x; echo "go""t $x"'; echo "status $?"` + "\n")
	term.command() // a job with a group of its own
	shell := term.find("bash", "--norc", "-ic", "sleep 1000; :")
	if err := syscall.Kill(shell.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	term.sees("command suspended")
	term.types(ctrlZ)
	term.sees("command continued")
	term.types("line\n")
	term.sees("got line")
	term.sees("status 0")
	term.worksAgain()
}

func TestNextCommandHasTheTerminalAfterTheGuardWasKilled(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`"$BINARY" run --mutex m --restart always -- sleep 1000; echo "status $?"` + "\n")
	first := term.command()
	term.sees("command started") // before that, a guard that dies is replaced
	if err := syscall.Kill(first.parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	term.sees("the guard was killed")
	until(t, "the end of the first command", func() bool { _, alive := inspect(first.pid); return !alive })
	term.command()
	term.types(ctrlC)
	term.sees("status 130")
	term.worksAgain()
}

func TestTerminalThatTheShellHasTakenStaysTheShells(t *testing.T) {
	t.Parallel()
	for name, goOn := range map[string]func(term *terminal, command int){
		"when the command ends": func(term *terminal, command int) {
			_ = syscall.Kill(command, syscall.SIGTERM)
			term.sees("status=143")
		},
		"until fg": func(term *terminal, command int) {
			term.types("fg\n")
			until(term.t, "berth in the foreground", func() bool { return term.foreground() != term.cmd.Process.Pid })
			_ = syscall.Kill(command, syscall.SIGUSR1)
			until(term.t, "the command in the foreground", func() bool { return term.foreground() == command })
			term.types("line\n")
			term.sees("got line")
			term.sees("status=0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			script := `trap 'read x; echo "go""t $x"; exit' USR1; echo u""p; while :; do sleep 0.02; done`
			term.types("export SCRIPT='" + strings.ReplaceAll(script, "'", `'\''`) + "'\n")
			term.types(`berth sh -c "$SCRIPT"` + "\n")
			term.sees("up\r\n")
			command := term.find("sh", "-c", script)
			until(t, "the command in the foreground", func() bool { return term.foreground() == command.pid })
			berth := term.find(binary, "run", "--mutex", "m", "--", "sh", "-c", script)
			_ = syscall.Kill(berth.pid, syscall.SIGSTOP)
			term.sees("Stopped")
			term.sees("prompt> ")
			term.types("bg\n")
			term.awaitState(berth.pid, "S")
			goOn(term, command.pid)
			term.worksAgain()
		})
	}
}
