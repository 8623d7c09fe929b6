package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

func TestCommandReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sh -c 'printf "na""me: "; read x; echo "hello $x"'; echo "status $?"` + "\n")
	term.sees("name: ")
	term.types("you\n")
	term.sees("hello you")
	term.sees("status 0")
	term.worksAgain()
}

// fault: ctrl-c
func TestCtrlCEndsTheCommandAndBerthWith130(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sleep 1000; echo "status $?"` + "\n")
	term.command()
	term.types(ctrlC)
	term.sees("status 130")
	term.worksAgain()
}

func TestCommandThatOpensTheTerminalReadsFromIt(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"alone in its group": `sh -c "$ASK" </dev/null`,
		"in a pipeline":      `sh -c "$ASK" </dev/null | cat`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.types(`export ASK='printf "pass""word: " >/dev/tty; read x </dev/tty; echo "go""t $x"'` + "\n")
			term.sees("prompt> ")
			term.types("berth " + script + "\n")
			term.sees("password: ")
			term.types("secret\n")
			term.sees("got secret")
			term.worksAgain()
		})
	}
}

// fault: background
//
// It needs root, as every test of a PID namespace.
func TestCommandThatCannotHaveTheTerminalIsTold(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`"$BINARY" run --mutex m --pid-namespace -- sh -c 'read x </dev/tty' </dev/null; echo "status $?"` +
		"\n")
	term.sees("command stopped until it has the terminal")
	term.types(ctrlC)
	term.sees("status 130")
	term.worksAgain()
}

// fault: ctrl-c
func TestCtrlCEndsARestartedCommandThatHandlesIt(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	script := `trap "exit 130" INT; echo u""p; while :; do sleep 0.02; done`
	term.types(`"$BINARY" run --mutex m --restart always -- sh -c '` + script + `'; echo "status $?"` + "\n")
	p := term.find("sh", "-c", script)
	until(t, "the command in the foreground", func() bool { return term.foreground() == p.pid })
	term.sees("up\r\n")
	term.types(ctrlC)
	term.sees("status 130")
	term.worksAgain()
}

// fault: pipeline
func TestPagerInBerthsPipelineKeepsTheTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	// More than a pipe holds: the command goes on once the pager does. The pager
	// asks when the command has begun.
	term.types(`berth seq 200000 | sh -c 'head -c 1; printf "mo""re? "; read x </dev/tty; wc -c; echo "go""t $x"'` +
		"\n")
	term.sees("more? ")
	term.types("line\n")
	term.sees("got line")
	term.worksAgain()
}

// fault: pipeline
func TestCommandInAPipelineReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sh -c 'printf "na""me: " >&2; read x; echo "hello $x"' | cat` + "\n")
	term.sees("name: ")
	term.types("you\n")
	term.sees("hello you")
	term.worksAgain()
}

// fault: pipeline
func TestCtrlCEndsAPipeline(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types("berth sleep 1000 | cat\n")
	term.sees("command started")
	term.types(ctrlC)
	term.sees("status=130")
	term.sees("prompt> ")
	term.worksAgain()
}

// fault: ctrl-c
func TestCtrlCThatTheCommandHandlesIsItsOwn(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sh -c 'trap "echo inter""rupted" INT; echo u""p; read x; read x; echo "go""t $x"'; echo "status $?"` + "\n")
	p := term.find("sh", "-c", `trap "echo inter""rupted" INT; echo u""p; read x; read x; echo "go""t $x"`)
	until(t, "the command in the foreground", func() bool { return term.foreground() == p.pid })
	term.sees("up\r\n")
	term.awaitState(p.pid, "S") // a shell that is about to read runs the trap only when it has
	term.types(ctrlC)
	term.sees("interrupted")
	term.types("line\nline\n")
	term.sees("got line")
	term.sees("status 0")
}

func TestTerminalSettingsOfAKilledCommandAreUndone(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]string{
		"alone":          "kill -KILL $$",
		"with its guard": "kill -KILL $PPID; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.types(`berth sh -c 'stty raw -echo; ` + kill +
				`'; echo "status $?"; stty -a | grep -o -e "-*icanon" -e "-*echo "` + "\n")
			term.sees("status 137")
			term.sees("\nicanon\r\necho ")
			term.worksAgain()
		})
	}
}

func TestTerminalSettingsThatACommandLeavesAreKept(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth stty -echo; echo "status $?"; stty -a | grep -o -e "-*echo "` + "\n")
	term.sees("status 0")
	term.sees("-echo ")
}

func TestChangeOfTheWindowsSizeReachesTheCommand(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	script := `trap "stty size; exit 5" WINCH; echo u""p; while :; do sleep 0.02; done`
	term.types(`berth sh -c '` + script + `'; echo "status $?"` + "\n")
	term.sees("up\r\n")
	p := term.find("sh", "-c", script)
	until(t, "the command in the foreground", func() bool { return term.foreground() == p.pid })
	if err := pty.Setsize(term.pty, &pty.Winsize{Rows: 33, Cols: 99}); err != nil {
		t.Fatal(err)
	}
	term.sees("33 99")
	term.sees("status 5")
}

// fault: terminal-gone
func TestTerminalThatHangsUpLeavesNothing(t *testing.T) {
	t.Parallel()
	restarted := `"$BINARY" run --mutex m --restart always -- `
	for name, line := range map[string]string{
		"in the foreground":            "berth sleep 1000\n",
		"in the background":            "berth sleep 1000 &\n",
		"stopped in the background":    "berth sh -c 'read x' &\n",
		"restarted, in the foreground": restarted + "sleep 1000\n",
		"restarted, in the background": restarted + "sleep 1000 &\n",
		"restarted, and slow to end": restarted +
			`sh -c 'trap "sleep 0.3; exit 0" HUP; while :; do sleep 0.02; done' &` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.types(line)
			term.sees("command started")
			switch {
			case name == "in the foreground":
				term.command()
			case strings.HasPrefix(name, "stopped"):
				term.sees("command stopped until it has the terminal")
			}
			term.pty.Close()
			until(t, "the end of everything on the terminal", func() bool { return len(marked(term.mark)) == 0 })
		})
	}
}

// The kernel's HUP goes to the session's leader, and to the group in the foreground, which is the command's.
//
// fault: terminal-gone
func TestTerminalThatHangsUpUnderAScriptLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"that ends":       `read x; echo "go""t $x"; exec sleep 1000`,
		"that ignores it": `trap "" HUP; read x; echo "go""t $x"; exec sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.types("export COMMAND='" + command + "'\n")
			term.sees("prompt> ")
			term.types(`exec sh -c '"$BINARY" run --mutex m --restart always --stop "TERM 0.5s, KILL" -- sh -c "$COMMAND"; :'` +
				"\n")
			term.sees("command started")
			term.types("line\n")
			term.sees("got line")
			term.pty.Close()
			until(t, "the end of everything on the terminal", func() bool { return len(marked(term.mark)) == 0 })
		})
	}
}

// As nohup(1) has it. The guard looks for the terminal each second.
func TestTerminalThatHangsUpLeavesACommandThatIgnoresIt(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	after := filepath.Join(t.TempDir(), "after")
	command := "while true </dev/tty; do sleep 0.05; done; sleep 2.5; touch " + after
	term.types(`(trap "" HUP; exec "$BINARY" run --mutex m --stop "TERM 0.1s, KILL" -- sh -c '` + command + "')\n")
	p := term.find("sh", "-c", command)
	until(t, "the command in the foreground", func() bool { return term.foreground() == p.pid })
	term.pty.Close()
	until(t, "what the command does afterwards", func() bool {
		_, err := os.Stat(after)
		return err == nil
	})
}
