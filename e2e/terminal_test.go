package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminal is an interactive shell on a terminal, with a person at it. In the
// shell, "berth COMMAND" runs a command under a lock.
type terminal struct {
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	mark string

	mu   sync.Mutex
	text strings.Builder
	read int // what is before it has been awaited
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	term := &terminal{t: t, mark: unique("mark")}
	term.cmd = exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	term.cmd.Env = append(ownEnvironment(), "PS1=prompt> ", markVariable+"="+term.mark,
		"BINARY="+binary, "BERTH_BROKER="+localURL(t), "BERTH_LOG_FORMAT=text", "GORACE=atexit_sleep_ms=0")
	blocking, err := pty.StartWithSize(term.cmd, &pty.Winsize{Rows: 24, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	if term.pty, err = closable(blocking); err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		buffer := make([]byte, 4096)
		for {
			n, err := term.pty.Read(buffer)
			term.mu.Lock()
			term.text.Write(buffer[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		for _, p := range marked(term.mark) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		_ = term.cmd.Wait()
		term.pty.Close()
		<-seen
		if t.Failed() {
			t.Logf("on the terminal was:\n%s", term.text.String())
		}
	})
	term.sees("prompt> ")
	term.types(`berth() { "$BINARY" run --mutex m -- "$@"; }` + "\n")
	term.sees("prompt> ")
	return term
}

// closable returns the same terminal as a file that is really closed by Close: a
// read under way keeps a blocking one open.
func closable(blocking *os.File) (*os.File, error) {
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	err = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "pty"), err
}

// types is what is pressed. What is to be seen must not be in it, because a
// terminal shows what is typed: write u”p for up.
func (term *terminal) types(text string) {
	term.t.Helper()
	if _, err := term.pty.WriteString(text); err != nil {
		term.t.Fatal(err)
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// sees waits until the text is shown, after what was seen before.
func (term *terminal) sees(text string) {
	term.t.Helper()
	until(term.t, fmt.Sprintf("%q on the terminal", text), func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		at := strings.Index(term.text.String()[term.read:], text)
		if at < 0 {
			return false
		}
		term.read += at + len(text)
		return true
	})
}

// foreground returns the process group that has the terminal.
func (term *terminal) foreground() int {
	term.t.Helper()
	group, err := unix.IoctlGetInt(int(term.pty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		term.t.Fatal(err)
	}
	return group
}

// find returns the process whose arguments are the words, once it is there.
func (term *terminal) find(args ...string) (found process) {
	term.t.Helper()
	until(term.t, fmt.Sprintf("a process %q", args), func() bool {
		for _, p := range marked(term.mark) {
			if strings.Join(p.args, " ") == strings.Join(args, " ") {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// command returns the command `sleep 1000` once it has the terminal.
func (term *terminal) command() process {
	term.t.Helper()
	p := term.find("sleep", "1000")
	until(term.t, "the command in the foreground", func() bool { return term.foreground() == p.pid })
	return p
}

// awaitState waits until the process is in the state, a letter of /proc/PID/stat.
func (term *terminal) awaitState(pid int, state string) {
	term.t.Helper()
	until(term.t, fmt.Sprintf("state %s of process %d", state, pid), func() bool {
		p, _ := inspect(pid)
		return p.state == state
	})
}

// worksAgain checks that the shell has its terminal back.
func (term *terminal) worksAgain() {
	term.t.Helper()
	term.types("read word; echo \"the $word\"\n")
	time.Sleep(time.Millisecond)
	term.types("end\n")
	term.sees("the end\r\n")
	if got := term.foreground(); got != term.cmd.Process.Pid {
		term.t.Errorf("the terminal is group %d's, not the shell's", got)
	}
}

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

// It needs root, as every test of a PID namespace.
func TestCommandThatCannotHaveTheTerminalIsTold(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`"$BINARY" run --mutex m --pid-namespace -- sh -c 'read x </dev/tty' </dev/null; echo "status $?"` + "\n")
	term.sees("command stopped until it has the terminal")
	term.types(ctrlC)
	term.sees("status 130")
	term.worksAgain()
}

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

func TestPagerInBerthsPipelineKeepsTheTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	// More than a pipe holds: the command goes on once the pager does. The pager
	// asks when the command has begun.
	term.types(`berth seq 200000 | sh -c 'head -c 1; printf "mo""re? "; read x </dev/tty; wc -c; echo "go""t $x"'` + "\n")
	term.sees("more? ")
	term.types("line\n")
	term.sees("got line")
	term.worksAgain()
}

func TestCommandInAPipelineReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sh -c 'printf "na""me: " >&2; read x; echo "hello $x"' | cat` + "\n")
	term.sees("name: ")
	term.types("you\n")
	term.sees("hello you")
	term.worksAgain()
}

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

func TestCtrlCThatTheCommandHandlesIsItsOwn(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sh -c 'trap "echo inter""rupted" INT; echo u""p; read x; read x; echo "go""t $x"'; echo "status $?"` + "\n")
	p := term.find("sh", "-c", `trap "echo inter""rupted" INT; echo u""p; read x; read x; echo "go""t $x"`)
	until(t, "the command in the foreground", func() bool { return term.foreground() == p.pid })
	term.sees("up\r\n")
	term.types(ctrlC)
	term.sees("interrupted")
	term.types("line\nline\n")
	term.sees("got line")
	term.sees("status 0")
}

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

// With TTOU received instead of obeyed, a write that is refused for it would be
// tried again for ever.
func TestLastLineComesFromTheBackgroundOfATerminalThatStopsOutput(t *testing.T) {
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

func TestTerminalSettingsOfAKilledCommandAreUndone(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	term.types(`berth sh -c 'stty raw -echo; kill -KILL $$'; echo "status $?"; stty -a | grep -o -e "-*icanon" -e "-*echo "` + "\n")
	term.sees("status 137")
	term.sees("\nicanon\r\necho ")
	term.worksAgain()
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

func TestTerminalThatHangsUpLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"in the foreground": "berth sleep 1000\n",
		"in the background": "berth sleep 1000 &\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			term.types(line)
			term.sees("command started")
			if strings.Contains(name, "foreground") {
				term.command()
			}
			term.pty.Close()
			until(t, "the end of everything on the terminal", func() bool { return len(marked(term.mark)) == 0 })
		})
	}
}
