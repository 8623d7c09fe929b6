package e2e

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/signals"
)

// recordVariable has the test binary be a program that records every signal it
// gets, one name per line of the file that the variable names.
const recordVariable = "E2E_RECORD"

// recordSignals leaves out what the program causes itself: Go's runtime sends URG,
// and CHLD tells of a child. TSTP stops it, USR2 ends it.
func recordSignals(file string) {
	got := make(chan os.Signal, 100)
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if sig != unix.SIGURG && sig != unix.SIGCHLD && sig != unix.SIGTSTP {
			signal.Notify(got, sig)
		}
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(f, "ready")
	for sig := range got {
		fmt.Fprintln(f, signals.Name(sig.(syscall.Signal)))
		if sig == unix.SIGUSR2 {
			os.Exit(0)
		}
	}
}

// recorder is a command for `sh -c` that records in the file "first", beside a
// child, in a session of its own, that records in the file "second".
func recorder(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	record := recordVariable + `="$E2E_DIR/`
	return record + `second" setsid '` + self + `' & ` + record + `first" exec '` + self + `'`
}

// sendOneByOne sends signals, the next one when the last has been recorded by the
// first process, and USR2 in the end. It checks that nothing else is recorded by
// either: the second gets what ends berth, once the first has ended.
func (b *berth) sendOneByOne(send func(syscall.Signal), sigs ...syscall.Signal) {
	b.t.Helper()
	first, second := filepath.Join(b.dir, "first"), filepath.Join(b.dir, "second")
	until(b.t, "both recorders", func() bool { return len(lines(first)) == 1 && len(lines(second)) == 1 })
	b.awaitRunning()
	wantFirst, wantSecond := []string{"ready"}, []string{"ready"}
	for _, sig := range sigs {
		send(sig)
		name := signals.Name(sig)
		wantFirst = append(wantFirst, name)
		if signals.Ends(sig) && !slices.Contains(wantSecond, name) {
			wantSecond = append(wantSecond, name)
		}
		until(b.t, "the record of "+name, func() bool { return len(lines(first)) >= len(wantFirst) })
	}
	if got := lines(second); len(got) > 1 {
		b.t.Errorf("while the first process lives the second has recorded %s", strings.Join(got, " "))
	}
	send(unix.SIGUSR2)
	until(b.t, "the end of the first recorder", func() bool { return slices.Contains(lines(first), "USR2") })
	if got := lines(first); !slices.Equal(got, append(wantFirst, "USR2")) {
		b.t.Errorf("sent was %s, but recorded %s", strings.Join(wantFirst, " "), strings.Join(got, " "))
	}
	until(b.t, "the record of the second", func() bool { return len(lines(second)) >= len(wantSecond) })
	// Sent at once, they have no order.
	if got := slices.Sorted(slices.Values(lines(second))); !slices.Equal(got, slices.Sorted(slices.Values(wantSecond))) {
		b.t.Errorf("the second process should record %s, but recorded %s", strings.Join(wantSecond, " "),
			strings.Join(got, " "))
	}
	self, _ := os.Executable()
	for _, p := range b.command() {
		if p.args[0] == self {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	b.wantStatus(0)
	b.wantNothingLeft()
}

// oneByOne is what is sent; ending signals begin the stop sequence, in which
// everything is still handed on.
var oneByOne = []syscall.Signal{
	unix.SIGHUP, unix.SIGUSR1, unix.SIGWINCH, unix.SIGCONT, unix.SIGALRM, unix.SIGUSR1, unix.SIGABRT,
	37, 35, 64, // real-time signals
	unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSYS, // no faults: somebody sends them
	unix.SIGINT, unix.SIGWINCH, unix.SIGQUIT, unix.SIGHUP, unix.SIGTERM, unix.SIGCONT, unix.SIGTERM, unix.SIGALRM, unix.SIGUSR1,
}

const longStop = "--stop=TERM 10m, KILL"

// fault: signals-exact
func TestCommandGetsTheSignalsThatBerthIsSentAndNoOther(t *testing.T) {
	t.Parallel()
	b := start(t, onHost.contest(t, "mutex").args(recorder(t), longStop)...)
	b.sendOneByOne(b.signal, oneByOne...)
}

// fault: signals-exact, pid1
func TestAsPID1TheCommandGetsTheSignalsThatBerthIsSent(t *testing.T) {
	t.Parallel()
	c := contain(t, recorder(t), longStop)
	c.sendOneByOne(c.send, oneByOne...)
}

// The key that stops the command stops the rest of its pipeline too, which berth
// continues with it.
func TestCommandOfAPipelineGetsOneCONTWhenItGoesOn(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(t.TempDir(), "record")
	awaitRecord := func(want ...string) {
		t.Helper()
		until(t, "the record "+strings.Join(want, " "), func() bool { return slices.Equal(lines(record), want) },
			func() string { return "it is " + strings.Join(lines(record), " ") })
	}
	term.types(`cat | ` + recordVariable + `='' "$BINARY" run --mutex m -- env ` + recordVariable + "='" + record +
		"' '" + self + "'\n")
	awaitRecord("ready")
	cat, command := term.find("cat"), term.find(self)
	term.sees("command started")
	for n := range 2 {
		term.types(ctrlZ)
		term.sees("command suspended")
		term.awaitState(command.pid, "T")
		term.awaitState(cat.pid, "T")
		term.types(ctrlZ)
		term.sees("command continued")
		term.awaitState(cat.pid, "S")
		awaitRecord(slices.Concat([]string{"ready"}, slices.Repeat([]string{"CONT"}, n+1))...)
	}
	term.types(ctrlC)
	awaitRecord("ready", "CONT", "CONT", "INT")
	if err := syscall.Kill(command.pid, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	awaitRecord("ready", "CONT", "CONT", "INT", "USR2")
	term.worksAgain()
}

// As with a password for psql, and less behind it. The pager can have the terminal at
// once: the command, which used it before, has nothing to do with that.
//
// fault: pipeline
func TestCommandHearsNothingOfAPagerThatGetsTheTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(t.TempDir(), "record")
	term.types("export SELF='" + self + "' RECORD='" + record + "' ASK='" +
		`printf "pass""word: " >/dev/tty; read x </dev/tty; echo "go""t $x"; ` + recordVariable +
		`="$RECORD" exec "$SELF"` + "'\n")
	term.sees("prompt> ")
	pager := `read x; echo "$x"; until [ -e "$RECORD" ]; do sleep 0.02; done; read y </dev/tty; echo "so""me $y"; exec cat`
	term.types(`"$BINARY" run --mutex m -- sh -c "$ASK" </dev/null | sh -c '` + pager + "'\n")
	term.sees("password: ")
	term.types("secret\n")
	term.sees("got secret")
	command := term.find(self)
	until(t, "the recorder", func() bool { return len(lines(record)) > 0 })
	term.types("more\n")
	term.sees("some more")
	if err := syscall.Kill(command.pid, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the recorder", func() bool { return slices.Contains(lines(record), "USR2") })
	if got := lines(record); !slices.Equal(got, []string{"ready", "USR2"}) {
		t.Errorf("the command has recorded %q", got)
	}
	term.worksAgain()
}
