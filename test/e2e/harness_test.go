// Package e2e tests the built binary from outside, against a real broker and
// against this host:
//
//	b := start(t, "run", "--broker", calmBroker(t).URL(), "--mutex", unique("m"), "--", "sleep", "1000")
//	b.awaitLog("command started")
//	b.signal(syscall.SIGTERM)
//	b.wantStatus(143)
//	b.wantNothingLeft()
package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what has to happen. It is far more than
// it takes, for busy machines; nothing is concluded from the time it took.
const patience = 40 * time.Second

// markVariable marks a berth and every process below it, however deep: an
// environment is inherited through forks, sessions and groups.
const markVariable = "E2E_MARK"

var sequence atomic.Int64

// unique returns a name that no other test uses.
func unique(prefix string) string {
	return fmt.Sprintf("%s-%d-%dx", prefix, os.Getpid(), sequence.Add(1))
}

// localURL returns the URL of a directory for locks of this host.
func localURL(t testing.TB) string { return "local://" + t.TempDir() }

// berth is one process of the binary. Its methods fail the test themselves.
type berth struct {
	t    testing.TB
	cmd  *exec.Cmd
	mark string
	dir  string // E2E_DIR of the command, and where output is kept
	done chan struct{}
}

// setup is what a test may choose about a berth; the zero value will do.
type setup struct {
	dir    string   // default: a new one
	env    []string // beside that of the tests, which is without BERTH_ variables
	stdin  *os.File // default: /dev/null
	stdout *os.File // default: a file, see berth.stdout
	cwd    string   // default: that of the tests
	via    []string // a program, with arguments, that becomes berth, such as nohup(1)
}

// start starts berth in a session of its own, so without a terminal, with logs
// in JSON on the debug level.
func start(t testing.TB, args ...string) *berth {
	t.Helper()
	return setup{}.start(t, args...)
}

func (s setup) start(t testing.TB, args ...string) *berth {
	t.Helper()
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	b := &berth{t: t, mark: unique("mark"), dir: s.dir, done: make(chan struct{})}
	line := slices.Concat(s.via, []string{binary}, args)
	b.cmd = exec.Command(line[0], line[1:]...)
	b.cmd.Dir, b.cmd.Stdin = s.cwd, s.stdin
	b.cmd.Env = slices.Concat(ownEnvironment(), []string{
		markVariable + "=" + b.mark, "E2E_DIR=" + b.dir,
		"BERTH_LOG_FORMAT=json", "BERTH_LOG_LEVEL=debug",
		"GORACE=atexit_sleep_ms=0", // else whatever is built with -race takes a second to end
	}, s.env)
	if s.stdout == nil {
		s.stdout = create(t, b.path("stdout"))
		defer s.stdout.Close()
	}
	stderr := create(t, b.path("stderr"))
	defer stderr.Close()
	// Files and not buffers: a process that inherits a pipe would keep Wait from returning.
	b.cmd.Stdout, b.cmd.Stderr = s.stdout, stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go b.own(started)
	if err := <-started; err != nil {
		t.Fatalf("cannot start berth: %v", err)
	}
	t.Cleanup(b.cleanUp)
	return b
}

// own keeps the thread that forked berth, because the parent-death signal comes
// when that one ends, and not the process.
func (b *berth) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := b.cmd.Start()
	started <- err
	if err == nil {
		_ = b.cmd.Wait() // the status is in ProcessState
		close(b.done)
	}
}

// cleanUp ends what is left and shows what was said, if the test has failed.
func (b *berth) cleanUp() {
	_ = b.cmd.Process.Signal(syscall.SIGCONT)
	_ = b.cmd.Process.Kill()
	<-b.done
	b.killRest()
	said := b.stderr()
	if strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic: ") ||
		strings.Contains(said, "fatal error: ") ||
		strings.Contains(said, "a transition that the table") {
		b.t.Error("berth is broken, see what it said")
	}
	if slices.Contains(b.cmd.Args, "run") {
		for _, line := range b.log() {
			last := strings.HasPrefix(line.message(), "berth run: ") // its last line names the lock itself
			if line.text("@module") == "berth" && line.text("lock") == "" && !last {
				b.t.Errorf("of which lock is this said? %v", line)
			}
		}
	}
	if b.t.Failed() {
		b.t.Logf("berth %s ended with %d and said:\n%s", strings.Join(b.cmd.Args[1:], " "),
			b.cmd.ProcessState.ExitCode(), said)
	}
}

// killRest lets the guard do its work, and kills what is left if it does not: to
// kill it first would leave the command's control group behind.
func (b *berth) killRest() {
	const grace = 5 * time.Second
	for over := time.Now().Add(grace); ; time.Sleep(5 * time.Millisecond) {
		left := marked(b.mark)
		if len(left) == 0 {
			return
		}
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
			if time.Now().After(over) {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
		}
	}
}

// ownEnvironment is the tests' environment without settings of berth.
func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BERTH_") })
}

func create(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// path is where this berth, not others in the same directory, keeps something.
func (b *berth) path(name string) string { return filepath.Join(b.dir, b.mark+"."+name) }

func (b *berth) pid() int { return b.cmd.Process.Pid }

func (b *berth) stdout() string { return read(b.path("stdout")) }
func (b *berth) stderr() string { return read(b.path("stderr")) }

// read returns a file's content, nothing if it is not there yet.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// lines returns the complete lines of a file.
func lines(path string) []string {
	all := strings.Split(read(path), "\n")
	return all[:len(all)-1]
}

// logLine is one line of berth's log, with the keys that hclog gives it:
// @level, @message, and those of the line itself.
type logLine map[string]any

func (l logLine) message() string { return fmt.Sprint(l["@message"]) }

// text returns a value of the line as text, "" if the line does not have it.
func (l logLine) text(key string) string {
	switch value := l[key].(type) {
	case nil:
		return ""
	case float64: // how encoding/json reads every number
		return strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Sprint(value)
	}
}

// log returns the log so far. What is no JSON, as an administrator's words are not,
// is left out.
func (b *berth) log() []logLine {
	var all []logLine
	for _, text := range lines(b.path("stderr")) {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil {
			all = append(all, line)
		}
	}
	return all
}

// logged returns the log lines whose message contains the text.
func (b *berth) logged(text string) []logLine {
	return slices.DeleteFunc(b.log(), func(l logLine) bool { return !strings.Contains(l.message(), text) })
}

// awaitLog waits for a log line whose message contains the text, and returns
// the first.
func (b *berth) awaitLog(text string) logLine {
	b.t.Helper()
	return b.awaitLogs(1, text)[0]
}

// awaitLogs waits for n log lines whose message contains the text.
func (b *berth) awaitLogs(n int, text string) []logLine {
	b.t.Helper()
	var found []logLine
	until(b.t, fmt.Sprintf("%d log lines %q", n, text), func() bool {
		found = b.logged(text)
		return len(found) >= n || b.ended()
	})
	if found = b.logged(text); len(found) < n {
		b.t.Fatalf("berth has ended with %d and has logged %q %d times, not %d", b.cmd.ProcessState.ExitCode(), text,
			len(found), n)
	}
	return found
}

// awaitRunning waits until the command has been started, and returns the number
// of its slot.
func (b *berth) awaitRunning() string {
	b.t.Helper()
	return b.awaitLog("command started").text("slot")
}

// runs returns what the command wrote into the file "runs" of its directory,
// one line per run; see tree.
func (b *berth) runs() []string { return lines(filepath.Join(b.dir, "runs")) }

// awaitRuns waits until there are n lines in the file "runs".
func (b *berth) awaitRuns(n int) {
	b.t.Helper()
	until(b.t, fmt.Sprintf("%d runs of the command", n), func() bool { return len(b.runs()) >= n || b.ended() })
	if len(b.runs()) < n {
		b.t.Fatalf("berth has ended with %d after %d runs of the command, not %d", b.cmd.ProcessState.ExitCode(),
			len(b.runs()), n)
	}
}

func (b *berth) signal(sig syscall.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(sig); err != nil {
		b.t.Fatalf("cannot send %v to berth: %v", sig, err)
	}
}

func (b *berth) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// status waits for berth's end and returns its exit status, 128+n if signal n
// ended it.
func (b *berth) status() int {
	b.t.Helper()
	select {
	case <-b.done:
	case <-time.After(patience):
		b.t.Fatalf("berth has not ended within %s", patience)
	}
	state := b.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

func (b *berth) wantStatus(want int) {
	b.t.Helper()
	if got := b.status(); got != want {
		b.t.Errorf("berth ended with %d, not %d", got, want)
	}
}

// stays fails the test if berth has ended.
func (b *berth) stays() {
	b.t.Helper()
	if b.ended() {
		b.t.Fatalf("berth has ended with %d", b.status())
	}
}

// until waits until a condition holds. What is said more is shown if it does
// not. To look takes processor time that berth needs as well: the longer it was
// waited for, the longer it waits for the next look.
func until(t testing.TB, what string, holds func() bool, more ...func() string) {
	t.Helper()
	began := time.Now()
	for !holds() {
		waited := time.Since(began)
		if waited > patience {
			for _, say := range more {
				what += "; " + say()
			}
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(min(max(waited/8, 5*time.Millisecond), 100*time.Millisecond))
	}
}

// do runs a berth that ends by itself, such as an administration command, and
// returns it after its end with status want.
func do(t testing.TB, want int, args ...string) *berth {
	t.Helper()
	b := start(t, args...)
	if got := b.status(); got != want {
		t.Fatalf("berth %s ended with %d, not %d", strings.Join(args, " "), got, want)
	}
	return b
}

// tree is a command, for `sh -c`, with a first process that ends at the first
// TERM, INT, QUIT or HUP and two more that end at none: a child, and one that has
// forked twice and is in a session of its own. When all are there it appends its
// slot to the file "runs".
const tree = `
UP="$E2E_DIR/up.$$"; export UP; : >"$UP"
(setsid sh -c 'trap "" TERM INT QUIT HUP; echo 1 >>"$UP"; exec sleep 1000' &)
sh -c 'trap "" TERM INT QUIT HUP; echo 2 >>"$UP"; exec sleep 1000' &
while [ "$(wc -l <"$UP")" -lt 2 ]; do sleep 0.01; done
echo "$BERTH_SLOT" >>"$E2E_DIR/runs"
exec sleep 1000`

// treeSize is how many processes there are in it.
const treeSize = 3

// plain is a command, for `sh -c`, of one process that every signal ends.
const plain = `echo "$BERTH_SLOT" >>"$E2E_DIR/runs"; exec sleep 1000`
