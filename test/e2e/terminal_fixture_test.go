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
		if t.Failed() {
			group, err := unix.IoctlGetInt(int(term.pty.Fd()), unix.TIOCGPGRP) // whatever it says, all are killed below
			t.Logf("the foreground is group %d, %v; the shell is %d", group, err, term.cmd.Process.Pid)
		}
		for _, p := range marked(term.mark) {
			if t.Failed() {
				t.Logf("there was %+v", p)
			}
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
