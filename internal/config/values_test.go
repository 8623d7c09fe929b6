package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/observe"
	"berth/lock"
	"berth/supervisor"
	"berth/test/authority"
)

// accepted loads what words say, separated by |, beside a broker, a lock and a command.
func accepted(t *testing.T, words string) Run {
	t.Helper()
	var given []string
	if words != "" {
		given = strings.Split(words, "|")
	}
	if !slices.Contains(given, "--broker") {
		given = append(given, "--broker", "amqp://h")
	}
	run, err := Load(input(append(given, "--mutex", "m", "--", "x")...))
	if err != nil {
		t.Fatalf("%s: %v", words, err)
	}
	return run
}

func TestWhatIsJustAllowedIsAccepted(t *testing.T) {
	for words, got := range map[string]func(Run) bool{
		"": func(r Run) bool {
			return r.Probe == ProbeConfirm && r.Protocol == ProtocolFull && r.StopTo == supervisor.StopFirst &&
				r.Ready == observe.Waiting && r.QueueType == "" && !r.Takeover && !r.PassNotify
		},
		"--timeout|1ns":            func(r Run) bool { return r.Timeout == 1 },
		"--timeout| 4s ":           func(r Run) bool { return r.Timeout == 4*time.Second },
		"--hook-timeout|1ns":       func(r Run) bool { return r.HookTimeout == 1 },
		"--verify-interval|10ms":   func(r Run) bool { return r.VerifyInterval == 10*time.Millisecond },
		"--ready|holding":          func(r Run) bool { return r.Ready == observe.Holding },
		"--protocol|plain":         func(r Run) bool { return r.Protocol == ProtocolPlain && r.Timeout == 0 },
		"--health-command|a 'b c'": func(r Run) bool { return slices.Equal(r.Health.Command, []string{"a", "b c"}) },
		"--health-command|a|--health-while-waiting|true": func(r Run) bool { return r.Health.WhileWaiting },
		// A lock of this host has neither protocol nor lease.
		"--broker|local|--protocol|plain|--admins|a": func(r Run) bool { return slices.Equal(r.Admins, []string{"a"}) },
	} {
		if run := accepted(t, words); !got(run) {
			t.Errorf("%s: %+v", words, run)
		}
	}
}

// What administers or looks at a lock reads the file and the variables of the berths that hold it.
func TestSettingsOfTheBrokerAreForEveryCommand(t *testing.T) {
	var names []string
	for _, option := range ConnectionOptions() {
		names = append(names, option.Name)
	}
	want := []string{"broker", "broker-file", "password-file", "lock-users", "config", "naming", "probe", "protocol",
		"queue-type", "login", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-min-version", "log-level",
		"log-format"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestDurationInTheFileNeedsAUnit(t *testing.T) {
	for _, name := range []string{"timeout", "max_run", "hook_timeout", "health_interval", "health_timeout",
		"health_start_period", "heartbeat", "verify_interval", "verify_timeout"} {
		_, err := Load(input("--config", write(t, name+" = 5")))
		if err == nil || !strings.HasSuffix(err.Error(), name+` is a number; write a duration in quotes, such as "5s"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The exit status tells a wrong command line from what that refers to, or stands beside.
func TestWhatAFlagRefersToIsNoMistakeOfTheCommandLine(t *testing.T) {
	for _, words := range []string{"--config|/no/such/file", "--broker|amqps://h|--tls-ca|/no/such/file",
		"--broker|amqp://h|--tls-server-name|rabbit"} {
		_, err := Load(input(strings.Split(words+"|--mutex|m|--|x", "|")...))
		if !errors.Is(err, ErrInvalid) || errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", words, err)
		}
	}
	_, err := Load(input("--broker", "amqp://u@h", "--password-file", "/no/such/file", "--mutex", "m", "--", "x"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestDirectoryThatIsGoneCannotBeStartedFrom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	_, err := Load(input("--directory", "work", "--broker", "local", "--mutex", "m", "--", "x"))
	if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), `--directory "work": cannot be found from here: `) {
		t.Error(err)
	}
}

// A program has no arguments with a NUL. It is refused, and not taken out.
func TestNULIsRefused(t *testing.T) {
	if words, err := splitWords("a\x00b c"); err != nil || !slices.Equal(words, []string{"a\x00b", "c"}) {
		t.Errorf("%q, %v", words, err)
	}
	for _, key := range []string{"command", "on_lost", "health_command"} {
		_, err := Load(input("--config", write(t, key+` = ["a", "b\u0000"]`)))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), key+": has a NUL character in place 2") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestWarningsAreOfSecretsAlone(t *testing.T) {
	const url = "amqp://u:s3cr3t@localhost"
	above := openFile(t, 0o644, "s3cr3t")
	below := filepath.Join(filepath.Dir(above), "open")
	if err := errors.Join(os.Mkdir(below, 0o755), os.Rename(above, filepath.Join(below, "secret")),
		os.Chmod(filepath.Dir(above), 0o700)); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(filepath.Dir(openFile(t, 0o600, "")), "pipe")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Chmod(pipe, 0o644)); err != nil {
		t.Fatal(err)
	}
	go os.WriteFile(pipe, []byte("s3cr3t"), 0o600)
	for name, c := range map[string]struct {
		words    string
		warnings int
	}{
		"a file for all without a password": {"--config|" + openFile(t, 0o644, `broker = ["amqp://u@localhost"]`), 0},
		"a file that all may execute":       {"BERTH_BROKER=amqp://u@localhost|--password-file|" + openFile(t, 0o601, "s3cr3t"), 0},
		"a directory above for few": {"BERTH_BROKER=amqp://u@localhost|--password-file|" + filepath.Join(below,
			"secret"), 0},
		"a pipe that is read once": {"BERTH_BROKER=amqp://u@localhost|--password-file|" + pipe, 0},
		"an address elsewhere":     {"BERTH_BROKER=amqp://u:s3cr3t@192.0.2.1", 1},
		"this host":                {"BERTH_BROKER=" + url, 0},
	} {
		run, err := Load(input(append(strings.Split(c.words, "|"), "--mutex", "m", "--", "x")...))
		if err != nil || len(run.Warnings) != c.warnings {
			t.Errorf("%s: %q, %v", name, run.Warnings, err)
		}
	}
}

func TestReloadTakesEachWayToLogIn(t *testing.T) {
	one, two := authority.New(t), authority.New(t)
	for _, ca := range []*authority.Authority{one, two} {
		ca.Sign("client", authority.Client)
	}
	pair := func(cert, key *authority.Authority) string {
		return "--broker|amqps://u:p@h|--tls-cert|" + cert.File("client.pem") + "|--tls-key|" + key.File("client.key")
	}
	again := filepath.Join(t.TempDir(), "client.key")
	key, err := os.ReadFile(one.File("client.key"))
	if err := errors.Join(err, os.WriteFile(again, key, 0o600)); err != nil {
		t.Fatal(err)
	}
	const broker = "--broker|amqps://u:p@h"
	for name, c := range map[string]struct{ before, now, took string }{
		"broker file": {"--broker-file|" + write(t, "amqp://u:p@h"), "--broker-file|" + write(t, "amqp://v:p@h"),
			"broker-file"},
		"authority": {broker + "|--tls-ca|" + one.File("ca.pem"), broker + "|--tls-ca|" + two.File("ca.pem"), "tls-ca"},
		"pair":      {pair(one, one), pair(two, two), "tls-cert tls-key"},
		"key":       {pair(one, one), broker + "|--tls-cert|" + one.File("client.pem") + "|--tls-key|" + again, "tls-key"},
		"login":     {pair(one, one), pair(one, one) + "|--login|external", "login"},
		"name":      {broker + "|--tls-server-name|a", broker + "|--tls-server-name|b", "tls-server-name"},
	} {
		before, now := loadedFrom(t, c.before), loadedFrom(t, c.now)
		next, took, kept, err := before.Reload(now)
		if err != nil || strings.Join(took, " ") != c.took || kept != nil || !slices.Equal(next.Brokers, now.Brokers) {
			t.Errorf("%s: took %q, kept %q, %v", name, took, kept, err)
		}
	}
}

func loadedFrom(t *testing.T, words string) Run {
	t.Helper()
	run, err := Load(input(append(strings.Split(words, "|"), "--mutex", "m", "--", "x")...))
	if err != nil {
		t.Fatalf("%s: %v", words, err)
	}
	return run
}

// Only the files of logins have secrets in them, which are told from others by the URLs.
func TestReloadOfAPasswordLeavesOtherFilesAlone(t *testing.T) {
	password := write(t, "old")
	words := "--broker|amqp://u@h|--takeover|true|--ready-file|f|--password-file|" + password
	before := loadedFrom(t, words)
	if err := os.WriteFile(password, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, took, kept, err := before.Reload(loadedFrom(t, words))
	if err != nil || !slices.Equal(took, []string{"password-file"}) || kept != nil {
		t.Errorf("took %q, kept %q, %v", took, kept, err)
	}
}

func TestReloadOfALockOfThisHostNeedsNoSafeTimings(t *testing.T) {
	next, took, _, err := loadedFrom(t, "--broker|local").Reload(loadedFrom(t, "--broker|local|--loss|TERM 1h, KILL"))
	if err != nil || next.Loss.Duration() != time.Hour || !slices.Equal(took, []string{"loss"}) {
		t.Errorf("took %q, %v", took, err)
	}
	if _, err := Load(input("--broker", "amqp://h", "--loss", "TERM 1h, KILL", "--mutex", "m", "--", "x")); !errors.Is(err,
		lock.ErrUnsafe) {
		t.Error(err)
	}
}
