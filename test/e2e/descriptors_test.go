package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// identity returns what file a path leads to, as stat prints it.
func identity(t testing.TB, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

func TestStandardFilesOfTheCommandAreTheUsers(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("first\nsecond\nthird\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	b := setup{stdin: stdin}.start(t,
		c.args(`read -r line; echo "$line"; echo said >&2; echo up >>"$E2E_DIR/runs"; exec sleep 1000`)...)
	b.awaitRuns(1)
	proc := fmt.Sprintf("/proc/%d/", b.commandPID())
	for fd, path := range []string{input, b.path("stdout"), b.path("stderr")} {
		if got, want := identity(t, fmt.Sprintf("%sfd/%d", proc, fd)), identity(t, path); got != want {
			t.Errorf("descriptor %d is the file %s, not %s", fd, got, want)
		}
	}
	if flags := read(proc + "fdinfo/1"); !strings.Contains(flags, fmt.Sprintf("%o\n", os.O_APPEND|os.O_WRONLY)) {
		t.Errorf("the output was opened to append, the command has %q", flags)
	}
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
	if b.stdout() != "first\n" {
		t.Errorf("standard output is %q", b.stdout())
	}
	if !slices.Contains(strings.Split(b.stderr(), "\n"), "said") {
		t.Error("standard error does not have what the command said")
	}
	// sh reads byte by byte from what others may read on from.
	if rest, err := io.ReadAll(stdin); err != nil || string(rest) != "second\nthird\n" {
		t.Errorf("after the command the input goes on with %q, %v", rest, err)
	}
}

func TestReaderOfTheOutputSeesItsEndWithBerths(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	b := setup{stdout: write}.start(t, c.args(`echo out; setsid sleep 1000 &`, quickStop)...)
	write.Close()
	if text, err := io.ReadAll(read); err != nil || string(text) != "out\n" {
		t.Errorf("%q came out, %v", text, err)
	}
	b.wantStatus(0)
}

func TestClosedOutputEndsTheCommandAndNotBerthFirst(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	b := setup{stdout: write}.start(t, c.args(`exec yes`)...)
	write.Close()
	b.wantStatus(128 + int(syscall.SIGPIPE))
	b.wantNothingLeft()
	c.wantFree()
}

// inShell runs a script in which "$BERTH" runs its arguments under a lock, and
// returns what it wrote to standard output.
func inShell(t *testing.T, script string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("sh", "-c", `berth() { "$BINARY" run --mutex m --broker "$LOCKS" -- "$@"; }; `+script)
	cmd.Env = append(ownEnvironment(), "BINARY="+binary, "LOCKS="+localURL(t), "GORACE=atexit_sleep_ms=0")
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, &stderr)
	}
	return stdout.String()
}

func TestCommandHasTheSurroundingsThatBerthHas(t *testing.T) {
	t.Parallel()
	for what, show := range map[string]string{
		"working directory": `pwd`,
		"umask":             `umask`,
		"limits":            `sh -c "ulimit -n; ulimit -Hn; ulimit -c"`,
		"priority":          `nice`,
		"session":           `ps -o sid= -p "$$"`,
		"blocked signals":   `grep SigBlk /proc/self/status`,
	} {
		t.Run(what, func(t *testing.T) {
			out := inShell(t, `mkdir d; cd d; umask 027; ulimit -n 333; ulimit -c 0; renice 5 $$ >/dev/null
				export SHOW='`+show+`'
				sh -c "$SHOW"; berth sh -c "$SHOW"`)
			bare, under, _ := strings.Cut(out, "\n")
			if half := len(out) / 2; what == "limits" {
				bare, under = out[:half], out[half:]
			}
			if strings.TrimSpace(bare) == "" || strings.TrimSpace(bare) != strings.TrimSpace(under) {
				t.Errorf("without berth %q, under berth %q", bare, under)
			}
		})
	}
}

// Those that a program of Go can find blocked.
func TestSignalsThatWereBlockedAreForTheCommand(t *testing.T) {
	t.Parallel()
	out := inShell(t, `blocking() { env --block-signal=USR1,TSTP,RTMAX "$@"; }
		blocking grep SigBlk /proc/self/status
		blocking "$BINARY" run --mutex m --broker "$LOCKS" -- grep SigBlk /proc/self/status`)
	bare, under, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if bare != under || bare == "SigBlk:\t0000000000000000" {
		t.Errorf("without berth %q, under berth %q", bare, under)
	}
}

func TestOtherDescriptorsReachTheCommandAtTheirNumbers(t *testing.T) {
	t.Parallel()
	out := inShell(t, `for n in 3 4 5 6 7 8 9; do echo "text $n" >$n; done
		exec 3<3 4<4 5<5 6<6 7<7 8<8 9<9
		berth sh -c 'cat <&3; cat <&4; cat <&5; cat <&6; cat <&7; cat <&8; cat <&9'`)
	if want := "text 3\ntext 4\ntext 5\ntext 6\ntext 7\ntext 8\ntext 9\n"; out != want {
		t.Errorf("the command read %q", out)
	}
}

func TestNothingOfBerthsOwnIsOpenInTheCommand(t *testing.T) {
	t.Parallel()
	out := inShell(t,
		`berth sh -c 'ls -l /proc/$$/fd' | grep -c -e socket: -e anon_inode -e "$(echo "$LOCKS" | cut -c 9-)" || :`)
	if strings.TrimSpace(out) != "0" {
		t.Errorf("%s descriptors of the command are berth's", out)
	}
}

func TestCommandsEnvironmentHasTheSlotAndNoSecrets(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	b := setup{env: []string{
		"PLAIN=a b", "EMPTY=", "BERTH_BROKER=amqp://user:secret@127.0.0.1:1", "BERTH_BROKER_PASSWORD=secret",
		"NOTIFY_SOCKET=/none", "WATCHDOG_PID=1", "WATCHDOG_USEC=1", "BERTH_SLOT=77", "BERTH_TERM=77", "BERTH_HOLDER=me",
	}}.start(t, c.args(`cat /proc/self/environ | tr "\000" "\n"`)...)
	b.wantStatus(0)
	env := map[string]string{}
	for _, line := range strings.Split(b.stdout(), "\n") {
		name, value, _ := strings.Cut(line, "=")
		if _, twice := env[name]; twice && name != "" {
			t.Errorf("%s is in the environment twice", name)
		}
		env[name] = value
	}
	for name, want := range map[string]string{
		"PLAIN": "a b", "EMPTY": "", "BERTH_NAME": c.name, "BERTH_KIND": "mutex", "BERTH_SLOT": "1",
	} {
		if got, there := env[name]; !there || got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if holder := env["BERTH_HOLDER"]; holder == "" || holder == "me" {
		t.Errorf("BERTH_HOLDER is %q", holder)
	}
	for name := range env {
		if strings.HasPrefix(name, "BERTH_BROKER") || strings.HasPrefix(name, "WATCHDOG_") || name == "NOTIFY_SOCKET" {
			t.Errorf("%s is in the environment", name)
		}
	}
}
